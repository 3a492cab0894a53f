/** The parts of tenure's own context that the command inherits: the environment and the terminal. */
import { readFileSync } from 'node:fs'
import { isatty } from 'node:tty'
import type { Leadership } from 'tenure'
import { redactedUrl } from 'tenure/stores'

type CommandEnvironment = Readonly<Record<string, string | undefined>>

/** Returns the variables that describe the lease to the command. */
export function leaseVariables({ term, election, identity }: Leadership, fencePath: string): Record<string, string> {
  return {
    TENURE_TERM: String(term),
    TENURE_ELECTION: election,
    TENURE_IDENTITY: identity,
    TENURE_FENCE_FILE: fencePath,
  }
}

/**
 * Returns the variables that describe a shard to its command. They replace those of an outer `tenure run`. A command that
 * is also tenure does not share these shards again, nor listen on the same address.
 */
export function shardVariables({
  election,
  identity,
  shard,
  token,
  fencePath,
}: {
  readonly election: string
  readonly identity: string
  readonly shard: number
  readonly token: number
  readonly fencePath: string
}): CommandEnvironment {
  return {
    TENURE_SHARD: String(shard),
    TENURE_TOKEN: String(token),
    TENURE_ELECTION: election,
    TENURE_IDENTITY: identity,
    TENURE_FENCE_FILE: fencePath,
    TENURE_TERM: undefined,
    TENURE_SHARDS: undefined,
    TENURE_MAX_MEMBERS: undefined,
    TENURE_METRICS: undefined,
  }
}

/**
 * Returns the environment without the credentials of the store. Programs log their environment, and their child processes
 * inherit it.
 */
export function withoutSecrets(environment: CommandEnvironment): CommandEnvironment {
  return Object.fromEntries(Object.entries(environment).filter(([name, value = '']) => !isSecret(name, value)))
}

function isSecret(name: string, value: string): boolean {
  if (['TENURE_TOKEN', 'TENURE_STORE_PASSWORD', 'TENURE_SENTINEL_PASSWORD'].includes(name)) return true
  // The URL may contain a password.
  return (name === 'TENURE_STORE' || name === 'TENURE_URL') && redactedUrl(value) !== value
}

/**
 * Whether the command may read from the terminal. It runs in its own session, so the kernel would not stop it from
 * reading input that is meant for another program while tenure is in the background.
 */
export function isInForeground(): boolean {
  if (!isatty(0)) return true
  try {
    const text = readFileSync('/proc/self/stat', 'utf8')
    const [, , group, , , foreground] = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return foreground === '-1' || group === foreground
  } catch {
    return true
  }
}
