/** A text that is not allowed where it stands. Whoever knows where that is tells it. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  /** What may have been meant. */
  readonly meant: string | undefined

  /** `rule` goes on after the name of what is wrong: "must be …". */
  constructor(rule: string, meant?: string) {
    super(rule)
    this.meant = meant
  }
}
