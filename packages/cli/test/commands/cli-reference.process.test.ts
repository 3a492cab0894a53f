import { expect, test } from 'vitest'
import { run } from '../tenure.ts'
import { readDocument } from '../../../../test/documents.ts'

const text = readDocument('docs/reference/cli.md')

interface Helps {
  readonly overview: string
  readonly byCommand: ReadonlyMap<string, Awaited<ReturnType<typeof run>>>
}

let collected: Promise<Helps> | undefined

/** The help of every command, collected once for all tests. */
function helps(): Promise<Helps> {
  collected ??= (async () => {
    const { out: overview } = await run(['--help'])
    const names = [...overview.matchAll(/^ {2}([a-z]+) .*/gm)].map(([, name]) => name ?? '')
    const byCommand = new Map<string, Awaited<ReturnType<typeof run>>>()
    for (const name of names) if (name !== 'help') byCommand.set(name, await run([name, '--help']))
    return { overview, byCommand }
  })()
  return collected
}

test('docs/reference/cli.md lists every command, and each help has examples and exit codes', async () => {
  const { byCommand } = await helps()
  expect(byCommand.size).toBeGreaterThan(10)
  for (const [name, help] of byCommand) {
    expect(text).toMatch(new RegExp(`^\\| \\[\`tenure .*\\b${name}\\b`, 'm'))
    expect(help).toMatchObject({ code: 0, error: '' })
    expect(help.out, name).toContain(`tenure ${name}`)
    expect(help.out, name).toContain('Exit codes: ')
    expect(help.out, name).toMatch(/^Examples:\n {2}\S/m)
  }
})

test('tenure --help lists every command under one of four headings', async () => {
  const { overview } = await helps()
  const sections = overview.split(/^(?=\S.*:$)/m).map((section) => section.split('\n'))
  const groups = sections.flatMap(([heading = '', ...lines]): [string, string[]][] => {
    const names = lines.flatMap((line) => /^ {2}([a-z]+) /.exec(line)?.[1] ?? [])
    return names.length === 0 ? [] : [[heading, names]]
  })
  expect(Object.fromEntries(groups)).toEqual({
    'Run:': ['run', 'campaign', 'resign', 'handover', 'sidecar', 'demo'],
    'See:': ['leader', 'watch', 'members', 'shards', 'groups', 'jobs', 'status', 'page', 'doctor'],
    'Operate:': ['serve', 'controller', 'guard', 'backup', 'restore', 'migrate', 'rotate', 'forget'],
    'Set up:': ['token', 'cert', 'completion', 'help'],
  })
})

test('every help says election instead of group outside flags, except for groups of users, of shards, and of a service', async () => {
  for (const [name, { out }] of (await helps()).byCommand) {
    if (['groups', 'guard', 'shards'].includes(name)) continue
    const groupsOfShards = /<group:n>|\b(?:name|leaves)\s+(?:this|the|the\s+same)\s+group\b/g
    const rest = name === 'run' ? out.replaceAll(groupsOfShards, '') : out
    expect(rest.replaceAll(/--[\w-]+/g, ''), name).not.toMatch(/\bgroups?\b/i)
  }
})
