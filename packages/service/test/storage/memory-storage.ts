import {
  isSameHead,
  type Appended,
  type Batch,
  type LoadedGroup,
  type History,
  type Loaded,
  type Storage,
  type StorageHead,
} from '../../src/storage/storage.ts'

/**
 * The fate of an append: `lost` does nothing and rejects, `unheard` takes effect and rejects, `late` rejects and is
 * tried when {@link MemoryStorage.deliver} is called.
 */
export type Fault = 'lost' | 'unheard' | 'late'

const pageGroups = 100

/** The storage port in memory. The object itself outlives the simulated process. */
export class MemoryStorage implements Storage {
  maxBatch = { groups: Infinity, bytes: Infinity }
  /** The faults of the next appends, in order. */
  readonly faults: (Fault | undefined)[] = []
  /** The group ids of each batch that was appended. */
  readonly handedIn: string[][] = []
  /** The highest number of appends that were in flight at once. */
  mostInFlight = 0
  /** Every append waits for this promise. */
  gate: Promise<void> = Promise.resolve()
  /** The number of durable writes. */
  writes = 0
  /** The incarnation of the simulated server. */
  incarnation = 'memory'
  #inFlight = 0
  #late: (() => Appended)[] = []
  protected stored: StorageHead = {
    term: 0,
    seq: 0,
    batch: '',
    clusterId: 'cluster',
    restores: 0,
    incarnation: 'memory',
    secret: 'secret',
  }
  protected groups = new Map<string, LoadedGroup>()

  async head(): Promise<StorageHead> {
    return this.stored
  }

  async history(): Promise<History> {
    return { incarnation: this.incarnation, isComplete: this.incarnation === this.stored.incarnation }
  }

  async append(expected: StorageHead, batch: Batch): Promise<Appended> {
    this.handedIn.push(batch.groups.map(({ id }) => id))
    this.#inFlight += 1
    this.mostInFlight = Math.max(this.mostInFlight, this.#inFlight)
    await this.gate
    this.#inFlight -= 1
    const fault = this.faults.shift()
    if (fault === 'late') this.#late.push(() => this.apply(expected, batch))
    const appended = fault === undefined || fault === 'unheard' ? this.apply(expected, batch) : undefined
    if (fault !== undefined || appended === undefined) throw new Error(`no answer: ${fault}`)
    return appended
  }

  /** Initializes the data, as a process does that finds no head. */
  beginAgain(): void {}

  /** Delivers the late appends. */
  deliver(): Appended[] {
    return this.#late.splice(0).map((arrive) => arrive())
  }

  protected apply(expected: StorageHead, batch: Batch): Appended {
    if (this.isAt(batch.head)) {
      this.confirm()
      return 'done'
    }
    if (!this.isAt(expected)) return 'fenced'
    this.put(batch)
    return 'done'
  }

  protected confirm(): void {
    this.writes += 1
  }

  protected isAt(head: StorageHead): boolean {
    return isSameHead(this.stored, head)
  }

  protected put({ head, groups }: Batch): void {
    this.writes += 1
    this.stored = head
    for (const { id, record } of groups) this.groups.set(id, { id, record, seq: head.seq })
  }

  async load(): Promise<Loaded> {
    return { head: this.stored, pages: this.pages([...this.groups.values()]) }
  }

  protected async *pages(groups: readonly LoadedGroup[]): AsyncGenerator<readonly LoadedGroup[]> {
    for (let from = 0; from < groups.length; from += pageGroups) yield groups.slice(from, from + pageGroups)
  }

  async check(): Promise<void> {
    this.writes += 1
  }

  async close(): Promise<void> {}
}
