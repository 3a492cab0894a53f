/** A text that is not allowed. The caller, which knows where it was given, adds that to the message. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  /** What may have been meant. */
  readonly meant: string | undefined

  /** `rule` follows the name of what is wrong: "must be …". */
  constructor(rule: string, meant?: string) {
    super(rule)
    this.meant = meant
  }
}
