export const longestNameBytes = 256
// C0, DEL, and C1 can forge log lines and terminal output, and several stores reject them.
// oxlint-disable-next-line no-control-regex
const controlCharacter = /[\u0000-\u001f\u007f-\u009f]/

/** The rule of {@link isName}, for messages. */
export const nameRule = `text of 1 to ${longestNameBytes} bytes of UTF-8 without control characters`

/**
 * Whether a value is a valid election name or identity: 1 to 256 bytes of well-formed UTF-8 without control characters.
 */
export function isName(value: unknown): value is string {
  return (
    typeof value === 'string' &&
    value !== '' &&
    Buffer.byteLength(value) <= longestNameBytes &&
    !controlCharacter.test(value) &&
    value.isWellFormed()
  )
}

/** The rule of {@link isLabel}, for messages. */
export const labelRule = 'at most 63 characters from a-z, 0-9 and "-"'

/** Whether a value is a DNS label, the form of namespace and cluster names. */
export function isLabel(value: unknown): value is string {
  return typeof value === 'string' && /^(?=.{1,63}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/.test(value)
}
