import { invalidOption } from './errors.ts'

const maxNameBytes = 256
// C0, DEL and C1: they forge log lines and terminal output, and several stores refuse them.
// oxlint-disable-next-line no-control-regex
const controlCharacter = /[\u0000-\u001f\u007f-\u009f]/

/** Election names and identities: 1 to 256 bytes of well-formed UTF-8 without control characters. */
export function checkName(option: string, value: unknown): asserts value is string {
  const rule = `it must be text of 1 to ${maxNameBytes} bytes of UTF-8 without control characters`
  if (typeof value !== 'string' || value.length === 0) throw invalidOption(option, value, rule)
  if (Buffer.byteLength(value) > maxNameBytes) throw invalidOption(option, value, rule)
  if (controlCharacter.test(value) || !value.isWellFormed()) throw invalidOption(option, value, rule)
}
