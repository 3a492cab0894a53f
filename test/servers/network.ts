import { execFile, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { find, pathOf } from './find-program.ts'
import { programs } from './programs.ts'

/** A host of a small network. */
export interface Host {
  readonly name: string
  readonly address: string
  /** Returns the command that runs a shell script on this host. */
  shell(script: string): readonly string[]
}

export interface Network {
  readonly hosts: readonly [Host, Host]
  close(): Promise<void>
}

/** Returns why network namespaces cannot be created here, or undefined. */
export function whyNoNetwork(): string | undefined {
  const found = find(programs.ip)
  // The suite reports the missing program itself.
  if ('missing' in found) return undefined
  const name = nameOf('probe')
  const { status, stderr } = spawnSync(found.path, ['netns', 'add', name], { encoding: 'utf8' })
  if (status !== 0) return `this user cannot create network namespaces: ${stderr.trim()}`
  spawnSync(found.path, ['netns', 'delete', name])
  return undefined
}

/**
 * Creates two hosts with their own network namespaces and host names, joined by a network link. They reach nothing
 * else, so the addresses and ports of this machine do not matter.
 */
export async function openNetwork(): Promise<Network> {
  const hosts = [hostOf('machine-1', '10.0.0.1'), hostOf('machine-2', '10.0.0.2')] as const
  const [one, two] = hosts
  try {
    for (const { space } of hosts) await ip('netns', 'add', space)
    await ip('link', 'add', 'cable', 'netns', one.space, 'type', 'veth', 'peer', 'name', 'cable', 'netns', two.space)
    for (const { space, address } of hosts) {
      await ip('-n', space, 'address', 'add', `${address}/24`, 'dev', 'cable')
      for (const device of ['lo', 'cable']) await ip('-n', space, 'link', 'set', device, 'up')
    }
  } catch (error) {
    await close()
    throw error
  }
  return { hosts, close }

  async function close(): Promise<void> {
    for (const { space } of hosts) await ip('netns', 'delete', space).catch(() => {})
  }
}

function hostOf(name: string, address: string) {
  const space = nameOf(name)
  const script = 'hostname "$0" && exec bash -c "$1"'
  return {
    name,
    address,
    space,
    shell: (text: string) =>
      [pathOf(programs.ip), 'netns', 'exec', space, 'unshare', '--uts', 'bash', '-c', script, name, text] as const,
  }
}

/** Other runs also create namespaces. */
function nameOf(name: string): string {
  return `tenure-${randomBytes(4).toString('hex')}-${name}`
}

async function ip(...args: string[]): Promise<void> {
  await promisify(execFile)(pathOf(programs.ip), args)
}
