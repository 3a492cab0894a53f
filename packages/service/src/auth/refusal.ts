/** Why somebody is not known. The reason is for the log of the service; it holds nothing of what was shown. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  /** The one reason that is told: it says nothing to those who forge, and much to those who forgot to renew. */
  readonly expired: boolean

  constructor(reason: string, { expired = false } = {}) {
    super(reason)
    this.expired = expired
  }
}
