/** Why a caller is not identified. The reason is for the log of the service. It contains nothing of the credential. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  /**
   * The only reason that the caller receives. It does not help a forger, but it helps a caller that forgot to renew.
   */
  readonly expired: boolean

  constructor(reason: string, { expired = false } = {}) {
    super(reason)
    this.expired = expired
  }
}
