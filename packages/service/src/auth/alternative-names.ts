/**
 * The subject alternative names of a certificate (RFC 5280, 4.2.1.6), read from its DER bytes, because the text form of
 * a name can be forged.
 */
import type { X509Certificate } from 'node:crypto'

const subjectAltName = '551d11'
const kinds: Readonly<Record<number, string>> = { 0x82: 'DNS', 0x86: 'URI' }

/**
 * Returns the names with their types, such as `DNS:node-17.example` or `URI:spiffe://example/node-17`. Other types are
 * left out.
 */
export function alternativeNames(certificate: X509Certificate): string[] {
  const [whole] = elements(certificate.raw)
  const [body] = elements(expect(whole, 0x30))
  const extensions = elements(expect(body, 0x30)).find(({ tag }) => tag === 0xa3)
  if (!extensions) return []
  const [list] = elements(extensions.content)
  const values = elements(expect(list, 0x30)).map((extension) => {
    const parts = elements(expect(extension, 0x30))
    return { id: expect(parts[0], 0x06).toString('hex'), content: expect(parts.at(-1), 0x04) }
  })
  const [found, second] = values.filter(({ id }) => id === subjectAltName)
  if (!found) return []
  if (second) throw new Error('a certificate has two lists of alternative names')
  const [names] = elements(found.content)
  return elements(expect(names, 0x30)).flatMap(({ tag, content }) => {
    const kind = kinds[tag]
    // Decode each byte as one character, so that no two names become equal.
    return kind === undefined ? [] : [`${kind}:${content.toString('latin1')}`]
  })
}

interface Element {
  readonly tag: number
  readonly content: Buffer
}

/** Returns the consecutive DER elements in these bytes. */
function elements(bytes: Buffer): Element[] {
  const found: Element[] = []
  let at = 0
  while (at < bytes.length) {
    const tag = bytes.readUInt8(at)
    const short = bytes.readUInt8(at + 1)
    const lengthBytes = short < 0x80 ? 0 : short & 0x7f
    if (short === 0x80 || lengthBytes > 4) throw new Error('a certificate has an invalid length field')
    const start = at + 2 + lengthBytes
    const length = lengthBytes === 0 ? short : bytes.readUIntBE(at + 2, lengthBytes)
    if (start + length > bytes.length) throw new Error('a certificate is truncated')
    found.push({ tag, content: bytes.subarray(start, start + length) })
    at = start + length
  }
  return found
}

function expect(element: Element | undefined, tag: number): Buffer {
  if (element?.tag !== tag) throw new Error('a certificate has an unexpected structure')
  return element.content
}
