import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import type { LeaseRecord } from '../../engine/lease-store.ts'
import type { LivenessSocketAddress } from './file-format.ts'
import { addressOf, fitsSocket, listen, socketName, type LivenessSocket } from './liveness-socket.ts'

/** Opens the liveness socket of one attempt. If it returns undefined, other candidates wait for the lease to expire. */
export type OpenLivenessSocket = (
  attempt: string,
  path: string | undefined,
) => LivenessSocket | undefined | Promise<LivenessSocket | undefined>

/** Who serves the liveness sockets: this process, another process, or nobody. */
export type LivenessSocketServer = 'self' | 'nobody' | OpenLivenessSocket

interface Opened {
  readonly attempt: string
  readonly sign: LivenessSocket
}

type ConnectAttempt = Pick<LeaseRecord, 'election' | 'attempt'>

/** The liveness sockets of the leases that a store was granted. */
export class LivenessSockets {
  readonly #directory: string
  readonly #server: LivenessSocketServer
  readonly #fileMode: number
  readonly #open = new Map<string, Opened[]>()
  #closed = false

  constructor(directory: string, server: LivenessSocketServer, fileMode: number) {
    this.#directory = directory
    this.#server = server
    this.#fileMode = fileMode
  }

  /** The file name for a socket in the leases' directory. Undefined if no socket can be created there. */
  socketFor({ election, attempt }: ConnectAttempt): string | undefined {
    const name = socketName(election, attempt)
    const usable = this.#server !== 'nobody' && process.platform === 'linux' && fitsSocket(join(this.#directory, name))
    return usable ? name : undefined
  }

  /** Opens the socket of an attempt. Call it only while holding the lock, before the grant is written. */
  async open(
    { election, attempt }: ConnectAttempt,
    socket: string | undefined,
  ): Promise<LivenessSocketAddress | undefined> {
    const sign = await this.#start(attempt, socket)
    if (!sign) return undefined
    this.#open.set(election, [...(this.#open.get(election) ?? []), { attempt, sign }])
    if (this.#closed) await this.close()
    // Record a relative path if possible: other containers may mount the same directory elsewhere.
    const isThere = socket !== undefined && sign.path === join(this.#directory, socket)
    // Ignore errors: a candidate that cannot connect only waits for the lease to expire.
    if (isThere) await chmod(sign.path, this.#fileMode).catch(() => {})
    return addressOf(this.#directory, isThere ? socket : sign.path)
  }

  async #start(attempt: string, socket: string | undefined): Promise<LivenessSocket | undefined> {
    const path = socket === undefined ? undefined : join(this.#directory, socket)
    if (typeof this.#server === 'function') return this.#server(attempt, path)
    // Ignore errors: without the socket, other candidates wait for the lease to expire.
    return path === undefined ? undefined : listen(path).catch(() => undefined)
  }

  /** Call only while holding the lock. All attempts of this store except the one in the record have ended. */
  async closeAllBut(record: LeaseRecord | undefined, election: string): Promise<void> {
    const open = this.#open.get(election)
    if (!open) return
    const isCurrent = ({ attempt }: Opened): boolean => record?.attempt === attempt && !record.released
    const kept = open.filter(isCurrent)
    if (kept.length > 0) this.#open.set(election, kept)
    else this.#open.delete(election)
    // Ignore errors: a socket that stays open does no harm, but an error would hide the answer to a call that was
    // applied.
    for (const { sign } of open.filter((one) => !isCurrent(one))) await close(sign).catch(() => {})
  }

  /**
   * Closes all sockets. Does not release leases that are still held: an unlinked socket does not prove that its holder
   * died.
   */
  async close(): Promise<void> {
    this.#closed = true
    const open = [...this.#open.values()].flat()
    this.#open.clear()
    await Promise.all(open.map(({ sign }) => close(sign)))
  }
}

async function close(sign: LivenessSocket): Promise<void> {
  await sign.close()
}
