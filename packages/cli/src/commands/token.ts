import { readFileSync } from 'node:fs'
import { messageOf } from '@tenure/internal/message'
import { isObject } from '@tenure/internal/objects'
import type { ErrorDetails } from 'tenure'
import type { FamilyDeclaration } from '../shared/arguments/declare.ts'
import { lifetimeOf } from '../shared/arguments/durations.ts'
import { CommandError, exitCodes, unavailable, usageError } from '../shared/arguments/errors.ts'
import { InvalidValue } from '../shared/arguments/invalid-value.ts'
import {
  parseArgument,
  commaSetting,
  setting,
  settingsFrom,
  toggle,
  type Sources,
} from '../shared/arguments/settings.ts'
import { json, serviceSettings } from '../shared/arguments/store-settings.ts'
import { fileOf, pathOf, textOf } from '../shared/arguments/values.ts'
import { loadServiceTools } from '../shared/optional-packages.ts'
import { print, printJson, timestamp } from '../shared/output.ts'
import { readSecretFile, writeNewFiles } from '../shared/secret-files.ts'
import { withService } from '../shared/service.ts'
import { claimsOf } from '../shared/token-claims.ts'

export const keySettings = {
  out: setting({ placeholder: 'file', help: 'the file for the private key; the public key goes to FILE.pub' }, pathOf),
}

export const signSettings = {
  key: setting({ placeholder: 'file', help: 'the private key from "tenure token key"' }, fileOf),
  node: setting(
    { placeholder: 'name', help: 'the node that the token is for: the --identity of that machine' },
    textOf,
  ),
  groups: commaSetting(
    { placeholder: 'names', help: 'the elections that the node may join, separated by commas: payments,reports-*' },
    (text) => textOf(text),
  ),
  reader: toggle('may read all elections and metrics'),
  admin: toggle('may define and delete elections, revoke tokens, and read everything'),
  lifetime: setting(
    { placeholder: 'duration', help: 'how long the token is valid, at most 366d', shownDefault: '30d' },
    lifetimeOf({ mostDays: 366 }),
  ),
  out: setting({ placeholder: 'file', help: 'the file for the token' }, pathOf),
  json,
}

export const showSettings = { json }

export const revokeSettings = { ...serviceSettings, json }

const fileCodes = '0 on success, 1 if a file already exists or others can read the key, 2 for invalid usage'

/** `tenure token`: creates identities for machines, without a separate token issuer. */
export const tokenCommands: FamilyDeclaration = {
  name: 'token',
  summary: 'Create a signing key, sign tokens for "tenure serve --token-key", and revoke them.',
  members: [
    {
      name: 'key',
      summary: 'Create a key that signs tokens.',
      settings: keySettings,
      examples: ['tenure token key --out tenure.key'],
      notes: [
        'It writes two files. tenure.key signs tokens: keep it where only you can read it.',
        'tenure.key.pub verifies them: give it to every replica as --token-key. It is not secret.',
        'To replace a key, keep both public keys in one file until all tokens are replaced.',
      ],
      exitCodes: fileCodes,
      run: (flags) => makeKey(flags),
    },
    {
      name: 'sign',
      summary: 'Sign a token for a machine, a reader or an administrator.',
      settings: signSettings,
      examples: [
        'tenure token sign --key tenure.key --node machine-2 --groups my-job --out machine-2.token',
        "tenure token sign --key tenure.key --node web --groups 'payments,reports-*' --lifetime 90d --out web.token",
        'tenure token sign --key tenure.key --node prometheus --reader --out prometheus.token',
        'tenure token sign --key tenure.key --node me --admin --lifetime 12h --out admin.token',
      ],
      notes: [
        'The file has mode 600. Copy it to its machine, for example with scp, and name it there with --token-file.',
        'It prints the id of the token, which "tenure token revoke" needs.',
      ],
      exitCodes: fileCodes,
      run: (flags) => sign(flags),
    },
    {
      name: 'show',
      argument: '<file>',
      summary: 'Show the node of a token, what it grants, and its id.',
      settings: showSettings,
      examples: ['tenure token show machine-2.token'],
      notes: ['It prints no secret, and does not verify the token.'],
      exitCodes: '0 on success, 2 if the file contains no token, 69 if it cannot be read',
      run: (flags, file) => show(file, flags),
    },
    {
      name: 'revoke',
      argument: '<id>',
      summary: 'Revoke a token at a service, by its id.',
      settings: revokeSettings,
      examples: [
        'tenure token revoke 9b1c0c5e-6f5b-4a50-9d0c-0a4f6f0f2b7e --url https://one.example:7070 \\',
        '  --ca-file service.pem --token-file admin.token',
      ],
      notes: [
        "It needs an administrator's token. When it returns, every replica rejects the revoked token.",
        'Open streams that use the token end at once. Its leases expire, because it can no longer renew them.',
      ],
      exitCodes: '0 on success, 2 for invalid usage, 69 if the service is unavailable or refuses',
      run: (flags, id) => revoke(id, flags),
    },
  ],
}

/** Creates a key pair and writes both halves. */
async function makeKey(flags: Sources['flags']): Promise<void> {
  const { out } = settingsFrom(keySettings, flags)
  if (out === undefined) throw usageError(['--out is missing. Name the file for the private key.'])
  const { createTokenKey } = await loadServiceTools('tenure token key')
  const { privateKey, publicKey } = await createTokenKey()
  writeNewFiles([
    { path: out, text: privateKey, isSecret: true },
    { path: `${out}.pub`, text: publicKey, isSecret: false },
  ])
  print(`${out} signs tokens: keep it secret.\n${out}.pub verifies them: tenure serve --token-key ${out}.pub`)
}

/** Signs a token and writes it to a file. */
async function sign(flags: Sources['flags']): Promise<void> {
  const { key, node, out, lifetime: lifetimeMs, json, ...rights } = settingsFrom(signSettings, flags)
  if (key === undefined || node === undefined || out === undefined) {
    const missing = Object.entries({ '--key': key, '--node': node, '--out': out })
    throw usageError(missing.filter(([, value]) => value === undefined).map(([flag]) => `${flag} is missing.`))
  }
  const { signToken } = await loadServiceTools('tenure token sign')
  const signed = await signToken(readSecretFile(key), { node, lifetimeMs, ...rights }).catch((error: unknown) => {
    throw translate(error, key)
  })
  writeNewFiles([{ path: out, text: `${signed.token}\n`, isSecret: true }])
  const { id, expiresAtMs } = signed
  if (json) return printJson({ id, node, expires_at_ms: expiresAtMs, file: out })
  print(`${out} is for ${node}, until ${timestamp(expiresAtMs)}. Its id is ${id}`)
}

/** Converts a library error to command-line terms. */
function translate(error: unknown, key: string): unknown {
  const { option, rule, message } = error as Error & ErrorDetails
  if (option === undefined) return error
  const text = option === 'privateKey' ? `--key: ${key} ${rule}` : message.replace(option, `--${option}`)
  return new CommandError(text, exitCodes.usage, { cause: error })
}

/**
 * Prints the claims of a token, but nothing that would let anyone use it. Only a service can decide whether the token
 * is valid.
 */
async function show(text: string, flags: Sources['flags']): Promise<void> {
  const { json } = settingsFrom(showSettings, flags)
  const path = parseArgument('FILE', text, textOf)
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

/** Revokes a token at a service. */
async function revoke(text: string, flags: Sources['flags']): Promise<void> {
  const token_id = parseArgument('ID', text, idOf)
  const settings = settingsFrom(revokeSettings, flags)
  await withService(settings, async (ask) => {
    const answer = await ask({ method: 'POST', path: '/v1/tokens/revoke', body: { token_id } })
    if (settings.json) printJson(answer)
    else print(`The token ${token_id} is revoked on every replica.`)
  })
}

function idOf(text: string): string {
  if (/^ey[\w-]+\./.test(text)) throw new InvalidValue('must be the id that "tenure token sign" printed')
  return textOf(text)
}
