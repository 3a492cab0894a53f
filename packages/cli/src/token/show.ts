import { readFileSync } from 'node:fs'
import { messageOf } from '@tenure/internal/message'
import { isObject } from '@tenure/internal/objects'
import { unavailable, usageError } from '../shared/arguments/errors.ts'
import { argument, settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { textOf } from '../shared/arguments/values.ts'
import { print, printJson, timestamp } from '../shared/output.ts'
import { claimsOf } from '../shared/token-claims.ts'
import { showSettings } from './settings.ts'

/**
 * Prints the claims of a token, but nothing that would let anyone use it. Only a service can say whether it is valid.
 */
export async function show(text: string, flags: Sources['flags']): Promise<void> {
  const { json } = settingsFrom(showSettings, flags)
  const path = argument('FILE', text, textOf)
  const claims = claimsIn(path)
  const { sub: node, jti: id, exp, tenure: rights } = claims
  const expiresAtMs = Number(exp) * 1000
  const granted = isObject(rights) ? rights : {}
  if (json) return printJson({ id, node, expires_at_ms: expiresAtMs, ...granted })
  const groups = Array.isArray(granted['groups']) ? granted['groups'].join(', ') : ''
  const roles = ['reader', 'admin'].filter((role) => granted[role] === true)
  const what = [...roles, ...(groups === '' ? [] : [`elections ${groups}`])].join(', ') || 'nothing'
  print(`${path} is for ${String(node)}, until ${timestamp(expiresAtMs)}: ${what}. Its id is ${String(id)}`)
}

function claimsIn(path: string): Readonly<Record<string, unknown>> {
  let token: string
  try {
    token = readFileSync(path, 'utf8')
  } catch (error) {
    throw unavailable(error, `Cannot read ${path}: ${messageOf(error)}`)
  }
  const claims = claimsOf(token)
  if (claims) return claims
  throw usageError([`${path} does not contain a token.`])
}
