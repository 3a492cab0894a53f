import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { findBlocks, readDocument, root } from '../documents.ts'
import { freePort } from '../servers/free-port.ts'
import { newRecipeFolder, waitOptions } from './recipe-folder.ts'

const guide = 'docs/guide/shards.md'

/** The guide with other ports, which no other program uses. */
async function readGuide() {
  const ports = [await freePort(), await freePort(), await freePort()]
  const text = readDocument(guide).replaceAll(/\b808([123])\b/g, (_, nth: string) => String(ports[Number(nth) - 1]))
  const blocks = findBlocks(guide, text)
  return {
    ports,
    /** The block that is marked with this word. */
    marked(word: string): string {
      const block = blocks.find(({ info }) => info[1] === word)
      return block?.code ?? expect.unreachable(`${guide} has no block "${word}"`)
    },
    /** The lines of the output with this number in the guide. */
    output(nth: number): string[] {
      const block = blocks.filter(({ info }) => info[0] === 'text')[nth]
      return (block?.code ?? expect.unreachable(`${guide} has no output ${nth}`)).split('\n')
    },
  }
}

test(
  'the guide to shards leads from a program to three processes that share 256 shards, and through a crash and a stop',
  { timeout: 180_000 },
  async () => {
    const { ports, marked, output } = await readGuide()
    const [alone = [], answer = [], balanced = [], seen = [], shared = [], stopped = []] = [0, 1, 2, 3, 4, 5].map(
      output,
    )
    const { folder, put, machine } = newRecipeFolder({})
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'dir')
    put('server.mjs', marked('server'))
    const open = async (word: string) => {
      const terminal = machine(`exec ${marked(word)}`)
      await terminal.says('listens, process')
      return terminal
    }
    const one = await open('one')
    const shows = (lines: readonly string[]) => one.says(lines.at(-1) ?? '')
    await shows(alone)
    const asked = machine(marked('ask'))
    expect(await asked.ended).toBe(0)
    expect(asked.output.out.trim()).toBe(answer[0])

    const two = await open('two')
    const three = await open('three')
    await shows(balanced)
    const rooms = ports.map(async (port) => (await fetch(`http://127.0.0.1:${port}/chat-42`)).text())
    expect(new Set(await Promise.all(rooms)).size).toBe(1)
    const see = machine(marked('see'))
    expect(await see.ended).toBe(0)
    const [summary = '', , header, ...members] = see.output.out.trim().split('\n')
    expect(summary).toMatch(/^256 shards, 256 owned\. Coordinator: node-\d+$/)
    expect(words(header)).toEqual(words(seen[2]))
    expect(members.map((line) => words(line)[3]).toSorted()).toEqual(['85', '85', '86'])

    three.child.kill('SIGKILL')
    await shows(shared)
    two.child.kill('SIGINT')
    expect(await two.ended).toBe(0)
    await vi.waitUntil(() => one.output.out.trimEnd().endsWith(`\n${stopped.at(-1)}`), waitOptions)
    one.child.kill('SIGINT')
    expect(await one.ended).toBe(0)
  },
)

function words(line = ''): string[] {
  return line.trim().split(/ +/)
}
