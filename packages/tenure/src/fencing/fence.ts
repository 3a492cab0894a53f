import { invalidOption } from '../common/errors.ts'
import { checkName } from '../common/names.ts'
import { checkOptions } from '../common/check-options.ts'
import { checkTerm, staleTerm } from './term.ts'

/** Options of {@link createFence}. */
export interface FenceOptions {
  /** Names the resource in error messages. */
  readonly resource?: string | undefined
  /** The highest term accepted before, loaded from wherever the resource keeps it. Default: 0, no term yet. */
  readonly highestTerm?: number | undefined
}

/**
 * An in-memory guard. It protects only the writes of this process, and forgets its state when the process ends. Store
 * `highestTerm` with the data and pass it again at startup.
 *
 * @example
 * const fence = createFence({ resource: 'report.json', highestTerm: saved.term })
 * await fence.run(term, () => replaceFile('report.json', { term, rows }))
 */
export interface Fence {
  readonly resource: string
  /** The highest term accepted so far, or 0 if no term has been accepted. */
  readonly highestTerm: number
  /**
   * Accepts the term and remembers it, or throws `STALE_TERM`. It covers only the synchronous code that follows. Use
   * `run` for an asynchronous write.
   */
  check(term: number): void
  /**
   * Checks the term, waits until every write of a lower term has settled, checks again, and writes. Writes of the same
   * term run concurrently. A write that never settles keeps higher terms waiting, so give it a deadline.
   */
  run<T>(term: number, write: () => T | Promise<T>): Promise<T>
}

/**
 * Creates a guard for one resource of this process. Create one per resource and keep it: a new guard does not know the
 * highest term of an earlier one.
 *
 * @example
 * const fence = createFence({ resource: 'cache' })
 * fence.check(5)
 * fence.check(5) // the same leader writes again
 * fence.check(4) // throws STALE_TERM
 */
export function createFence(options: FenceOptions = {}): Fence {
  checkOptions('createFence()', options, { resource: true, highestTerm: true })
  const { resource = 'resource', highestTerm = 0 } = options
  checkName('resource', resource)
  if (highestTerm !== 0) checkTerm('highestTerm', highestTerm)
  let highest = highestTerm
  const running = new Set<{ readonly term: number; readonly settled: Promise<unknown> }>()

  const fence: Fence = {
    resource,
    get highestTerm() {
      return highest
    },
    check(term) {
      checkTerm('term', term)
      if (term < highest) throw staleTerm(resource, term, highest)
      highest = term
    },
    async run(term, write) {
      if (typeof write !== 'function') throw invalidOption('write', write, 'it must be a function')
      // Raise the term before waiting. From here on no lower term can start, so one snapshot of the running writes is
      // enough.
      fence.check(term)
      const lower = [...running].filter((other) => other.term < term)
      if (lower.length > 0) {
        await Promise.allSettled(lower.map((other) => other.settled))
        fence.check(term)
      }
      const settled = (async () => write())()
      const entry = { term, settled }
      running.add(entry)
      try {
        return await settled
      } finally {
        running.delete(entry)
      }
    },
  }
  return fence
}
