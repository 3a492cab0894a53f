import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import type { LeaseRecord } from '../../lease-store.ts'
import type { SignAddress } from './file-format.ts'
import { addressOf, fitsSocket, listen, socketName, type SignOfLife } from './sign-of-life.ts'

/** Opens the sign of life of one attempt; with nothing, others wait for the lease to expire. */
export type OpenSign = (
  attempt: string,
  path: string | undefined,
) => SignOfLife | undefined | Promise<SignOfLife | undefined>

/** Who serves the signs of life: this process, another one, or nobody. */
export type SignServer = 'self' | 'nobody' | OpenSign

interface Opened {
  readonly attempt: string
  readonly sign: SignOfLife
}

type Attempt = Pick<LeaseRecord, 'election' | 'attempt'>

/** The signs of life of the leases that a store was granted. */
export class OpenSigns {
  readonly #directory: string
  readonly #server: SignServer
  readonly #fileMode: number
  readonly #open = new Map<string, Opened[]>()
  #closed = false

  constructor(directory: string, server: SignServer, fileMode: number) {
    this.#directory = directory
    this.#server = server
    this.#fileMode = fileMode
  }

  /** The name that the socket has if `open` makes it in the leases' directory; undefined if none can be there. */
  socketFor({ election, attempt }: Attempt): string | undefined {
    const name = socketName(election, attempt)
    const usable = this.#server !== 'nobody' && process.platform === 'linux' && fitsSocket(join(this.#directory, name))
    return usable ? name : undefined
  }

  /** Only under the lock, before the grant is written. */
  async open({ election, attempt }: Attempt, socket: string | undefined): Promise<SignAddress | undefined> {
    const sign = await this.#start(attempt, socket)
    if (!sign) return undefined
    this.#open.set(election, [...(this.#open.get(election) ?? []), { attempt, sign }])
    if (this.#closed) await this.close()
    // A relative path where it can be: other containers may see the same directory elsewhere.
    const isThere = socket !== undefined && sign.path === join(this.#directory, socket)
    // Only a faster take-over depends on it: others who cannot connect wait for the lease to expire.
    if (isThere) await chmod(sign.path, this.#fileMode).catch(() => {})
    return addressOf(this.#directory, isThere ? socket : sign.path)
  }

  async #start(attempt: string, socket: string | undefined): Promise<SignOfLife | undefined> {
    const path = socket === undefined ? undefined : join(this.#directory, socket)
    if (typeof this.#server === 'function') return this.#server(attempt, path)
    // It only makes a take-over faster: where it cannot listen, others wait for the lease to expire.
    return path === undefined ? undefined : listen(path).catch(() => undefined)
  }

  /** Only under the lock: there, every attempt of ours that the record does not show is over. */
  async closeAllBut(record: LeaseRecord | undefined, election: string): Promise<void> {
    const open = this.#open.get(election)
    if (!open) return
    const isCurrent = ({ attempt }: Opened): boolean => record?.attempt === attempt && !record.released
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
