import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { root } from '../documents.ts'

const source = join(root, 'packages/tenure/src')
/** The whole source of the library, with each value in a message replaced by an ellipsis, as on the page. */
const code = readdirSync(source, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => readFileSync(join(source, file), 'utf8'))
  .join('\n')
  .replaceAll(/\$\{[^{}]*\}/g, '…')

/** Messages that other packages throw. The tests of those packages cover them. */
const ofOthers = ["Cannot read properties of undefined (reading 'bind')"]
/** Parts of our messages that are not in the code: text from other programs. */
const foreign = /connect ECONNREFUSED|self-signed certificate|namespaces … not found/
/** Values that a message on the page shows in place of an ellipsis. */
const values =
  /(?<=Cannot )(?:get|create)(?= Lease)|(?<=answer(?:ed)? )(?:GET|404)|exec|LeaderElector(?= has no option)|renew(?=" for)|(?<="identity" is )undefined|identity/g

const table = readFileSync(join(root, 'docs/how-to/kubernetes-troubleshooting.md'), 'utf8')
const messages = [...table.matchAll(/^\| `([^`]+)`/gm)].map(([, message]) => message ?? '')

test('the troubleshooting page explains more than 20 messages', () => {
  expect(messages.length).toBeGreaterThan(20)
})

test.each(messages.filter((message) => !ofOthers.includes(message)))(
  'the message on the troubleshooting page is in the code: %s',
  (message) => {
    const pieces = message
      .replace(foreign, '')
      .replaceAll(values, '…')
      .split(/…|: |(?= within )/)
      .map((piece) => piece.trim())
      .filter((piece) => piece.length > 3)
    expect(pieces).not.toEqual([])
    expect(pieces.filter((piece) => !code.includes(piece))).toEqual([])
  },
)
