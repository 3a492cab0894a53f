import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { createFence } from 'tenure/fencing'

/** A leader's request to the guarded counter. */
export interface GuardRequest {
  readonly verb: 'read' | 'write'
  readonly term: number
  readonly value?: number
  readonly pid: number
}

/** The value of the counter, or the information that the term is stale. */
export type GuardAnswer = { readonly ok: true; readonly value: number } | { readonly ok: false; readonly value?: never }

/**
 * A counter that all leaders read and write over a socket. Reads also carry the term. Otherwise a former leader's write
 * between the new leader's read and write would be lost.
 */
export class Guard {
  readonly accepted: GuardRequest[] = []
  readonly refused: GuardRequest[] = []
  #value = 0
  readonly #check: (term: number) => void
  readonly #server: Server
  readonly #connections = new Set<Socket>()

  private constructor(isFenced: boolean) {
    const fence = createFence({ resource: 'counter' })
    this.#check = (term) => isFenced && fence.check(term)
    this.#server = createServer((connection) => this.#serve(connection))
  }

  static async open(path: string, { isFenced = true } = {}): Promise<Guard> {
    const guard = new Guard(isFenced)
    guard.#server.listen(path)
    await once(guard.#server, 'listening')
    return guard
  }

  get value(): number {
    return this.#value
  }

  close(): void {
    this.#server.close()
    for (const connection of this.#connections) connection.destroy()
  }

  #serve(connection: Socket): void {
    this.#connections.add(connection)
    connection.once('close', () => this.#connections.delete(connection))
    createInterface(connection)
      .on('line', (line) => {
        connection.write(`${JSON.stringify(this.#answer(JSON.parse(line) as GuardRequest))}\n`)
      })
      // The process was killed. The readline interface forwards the errors of the connection.
      .on('error', () => {})
  }

  #answer(request: GuardRequest): GuardAnswer {
    try {
      this.#check(request.term)
    } catch {
      this.refused.push(request)
      return { ok: false }
    }
    if (request.verb === 'write') {
      this.#value = request.value ?? Number.NaN
      this.accepted.push(request)
    }
    return { ok: true, value: this.#value }
  }
}
