/** Formats a time as a Kubernetes MicroTime, with six digits after the second. */
export function microTime(unixTimeMs: number): string {
  return new Date(unixTimeMs).toISOString().replace('Z', '000Z')
}
