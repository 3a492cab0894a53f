import type { CallOptions } from 'tenure'
import { decodeHead, encodeHead } from './head-text.ts'
import type { MoveTarget, TargetState } from './move-storage.ts'
import { encodeRecord } from './record-text.ts'
import type { GroupText, StorageServer } from './server-storage.ts'
import type { LoadedGroup, StorageHead } from './storage.ts'

const callMs = 10_000

/** A server as the target of a move. */
export class ServerTarget implements MoveTarget {
  readonly name: string
  readonly #server: StorageServer
  #incarnation = ''

  constructor(server: StorageServer, name: string) {
    this.#server = server
    this.name = name
  }

  async state({ clusterId }: StorageHead): Promise<TargetState> {
    const { head: text, incarnation, problem } = await this.#find()
    if (problem !== undefined) throw new Error(`${this.#server.name} cannot be used: ${problem}.`)
    this.#incarnation = incarnation
    if (text === undefined) {
      const { groups } = await this.#server.page(undefined, 1, this.#call)
      if (groups.length === 0) return 'empty'
    } else {
      const { head, isPartial, movedTo } = decodeHead(text)
      if (head.clusterId === clusterId && movedTo === undefined) return isPartial ? 'begun' : 'done'
    }
    throw new Error(`${this.#server.name} contains other data. Choose an empty target.`)
  }

  async begin(head: StorageHead): Promise<void> {
    await this.#server.begin(this.#partial(head), this.#call)
  }

  async fill(groups: readonly LoadedGroup[]): Promise<void> {
    const texts = groups.map(({ id, record, seq }) => ({ id, text: encodeRecord(id, record, { commit: 0, seq }) }))
    for (const batch of this.#batches(texts)) await this.#swap(batch)
  }

  async finish(head: StorageHead): Promise<void> {
    await this.#swap([], encodeHead({ head: { ...head, incarnation: this.#incarnation } }))
  }

  async close(): Promise<void> {
    await this.#server.close()
  }

  /** Swaps on top of the current head, which must be marked as incomplete. */
  async #swap(groups: readonly GroupText[], next?: string): Promise<void> {
    const { head: over } = await this.#find()
    if (over === undefined || !decodeHead(over).isPartial) throw this.#changed()
    const { swapped } = await this.#server.swap({ over, head: next ?? over, groups }, this.#call)
    if (!swapped) throw this.#changed()
  }

  #changed(): Error {
    return new Error(`${this.#server.name} changed while data was being moved there. Is the same move running twice?`)
  }

  #partial(head: StorageHead): string {
    return encodeHead({ head: { ...head, incarnation: this.#incarnation }, isPartial: true })
  }

  async #find() {
    await this.#server.prepare?.(this.#call)
    return this.#server.find(this.#call)
  }

  get #call(): CallOptions {
    return { signal: new AbortController().signal, timeoutMs: callMs }
  }

  *#batches(texts: readonly GroupText[]): Generator<GroupText[]> {
    const { groups, bytes } = this.#server.maxBatch
    let batch: GroupText[] = []
    let left = bytes
    for (const one of texts) {
      const size = one.id.length + Buffer.byteLength(one.text)
      if (batch.length > 0 && (batch.length === groups || left < size)) {
        yield batch
        batch = []
        left = bytes
      }
      batch.push(one)
      left -= size
    }
    if (batch.length > 0) yield batch
  }
}
