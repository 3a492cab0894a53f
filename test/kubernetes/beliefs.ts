/** The clock that all processes of a machine share. */
export const nowMs = () => Number(process.hrtime.bigint()) / 1e6

/** The time from an election until its signal aborted. */
export interface Belief {
  readonly identity: string
  readonly term: number
  readonly fromMs: number
  toMs: number
}

/** Returns pairs of beliefs that overlapped. */
export function overlaps<Some extends Pick<Belief, 'fromMs' | 'toMs'>>(beliefs: readonly Some[]): Some[][] {
  return beliefs.flatMap((one, index) =>
    beliefs
      .slice(index + 1)
      .filter((other) => one.fromMs < other.toMs && other.fromMs < one.toMs)
      .map((other) => [one, other]),
  )
}
