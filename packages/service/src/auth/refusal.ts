/** Why a caller is not identified. The reason is for the log of the service; it holds nothing of the credential. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  /** The one reason that the caller gets: it does not help a forger, but it helps a caller that forgot to renew. */
  readonly expired: boolean

  constructor(reason: string, { expired = false } = {}) {
    super(reason)
    this.expired = expired
  }
}
