/**
 * Why a caller could not be identified. The reason goes only into the service's log, and contains no part of the
 * credential.
 */
export class CredentialError extends Error {
  override readonly name = 'Refusal'
  /**
   * Whether the credential has expired. This is the only reason that the response gives: it does not help a forger, but
   * it helps a caller that forgot to renew its credential.
   */
  readonly expired: boolean

  constructor(reason: string, { expired = false } = {}) {
    super(reason)
    this.expired = expired
  }
}
