/**
 * A URL as it may stand in a message: without what comes before an `@` or after a `?`, where passwords are.
 *
 * @example
 * logger.info({ store: redactedUrl(process.env.TENURE_STORE ?? 'memory:') })
 */
export function redactedUrl(url: string): string {
  return url.replaceAll(/[^/?#\s,]*@/g, '***@').replaceAll(/\?[^,]*/g, '?***')
}
