/** A time as Kubernetes writes it: six digits after the second. */
export function microTime(unixTimeMs: number): string {
  return new Date(unixTimeMs).toISOString().replace('Z', '000Z')
}
