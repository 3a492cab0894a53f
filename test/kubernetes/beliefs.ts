/** The clock that all processes of a machine share. */
export const nowMs = () => Number(process.hrtime.bigint()) / 1e6

/** From an election to the moment its signal aborted. */
export interface Belief {
  readonly identity: string
  readonly term: number
  readonly fromMs: number
  toMs: number
}

/** Pairs of beliefs that were held at the same time. */
export function overlaps<Some extends Pick<Belief, 'fromMs' | 'toMs'>>(beliefs: readonly Some[]): Some[][] {
  return beliefs.flatMap((one, index) =>
    beliefs
      .slice(index + 1)
      .filter((other) => one.fromMs < other.toMs && other.fromMs < one.toMs)
      .map((other) => [one, other]),
  )
}
