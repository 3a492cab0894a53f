/** An invalid value. The caller knows where the value was given, and adds that to the message. */
export class InvalidValue extends Error {
  override readonly name = 'InvalidValue'
  /** The value that the user probably meant. Undefined if unknown. */
  readonly suggestion: string | undefined

  /** `rule` is the end of a sentence that starts with the name of the setting: "must be …". */
  constructor(rule: string, suggestion?: string) {
    super(rule)
    this.suggestion = suggestion
  }
}
