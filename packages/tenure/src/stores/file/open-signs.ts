import { join } from 'node:path'
import type { LeaseRecord } from '../../lease-store.ts'
import type { SignAddress } from './file-format.ts'
import { addressOf, fitsSocket, listen, socketName, type SignOfLife } from './sign-of-life.ts'

/** Who serves the signs of life: this process, another one, or nobody. */
export type SignServer = 'self' | 'nobody' | ((attempt: string) => SignOfLife | Promise<SignOfLife>)

interface OpenSign {
  readonly attempt: string
  readonly sign: SignOfLife
}

type Grant = Pick<LeaseRecord, 'election' | 'attempt'>

/** The signs of life of the leases that a store was granted. */
export class OpenSigns {
  readonly #directory: string
  readonly #server: SignServer
  readonly #open = new Map<string, OpenSign[]>()
  #closed = false

  constructor(directory: string, server: SignServer) {
    this.#directory = directory
    this.#server = server
  }

  /** The name of the socket that `open` will make in the leases' directory, or undefined if it makes none there. */
  socketFor({ election, attempt }: Grant): string | undefined {
    const name = socketName(election, attempt)
    const usable = this.#server === 'self' && process.platform === 'linux' && fitsSocket(join(this.#directory, name))
    return usable ? name : undefined
  }

  /** Only under the lock, before the grant is written. */
  async open(grant: Grant, socket: string | undefined): Promise<SignAddress | undefined> {
    const sign = await this.#start(grant.attempt, socket)
    if (!sign) return undefined
    this.#open.set(grant.election, [...(this.#open.get(grant.election) ?? []), { attempt: grant.attempt, sign }])
    if (this.#closed) await this.close()
    // A relative path where it can be: other containers may see the same directory elsewhere.
    return addressOf(this.#directory, socket ?? sign.path)
  }

  async #start(attempt: string, socket: string | undefined): Promise<SignOfLife | undefined> {
    if (typeof this.#server === 'function') return this.#server(attempt)
    // It only makes a take-over faster: where it cannot listen, others wait for the lease to expire.
    return socket === undefined ? undefined : listen(join(this.#directory, socket)).catch(() => undefined)
  }

  /** Only under the lock: there, every attempt of ours that the record does not show is over. */
  async closeAllBut(record: LeaseRecord | undefined, election: string): Promise<void> {
    const open = this.#open.get(election)
    if (!open) return
    const isCurrent = ({ attempt }: OpenSign): boolean => record?.attempt === attempt && !record.released
    const kept = open.filter(isCurrent)
    if (kept.length > 0) this.#open.set(election, kept)
    else this.#open.delete(election)
    // A sign that cannot be closed does no harm, while an error here would hide the answer of a call that was applied.
    for (const { sign } of open.filter((one) => !isCurrent(one))) await close(sign).catch(() => {})
  }

  /** Leases that are still held are not given back by this: their signs of life vanish, which proves nothing. */
  async close(): Promise<void> {
    this.#closed = true
    const open = [...this.#open.values()].flat()
    this.#open.clear()
    await Promise.all(open.map(({ sign }) => close(sign)))
  }
}

async function close(sign: SignOfLife): Promise<void> {
  await sign.close()
}
