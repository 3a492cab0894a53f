/** An invalid value. The caller knows where the value was given, and adds that to the message. */
export class InvalidValue extends Error {
  override readonly name = 'Refusal'
  /** What the user probably meant; undefined if unknown. */
  readonly meant: string | undefined

  /** `rule` is the end of a sentence that starts with the name of the setting: "must be …". */
  constructor(rule: string, meant?: string) {
    super(rule)
    this.meant = meant
  }
}
