import { argument, settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { InvalidValue } from '../shared/arguments/refusal.ts'
import { textOf } from '../shared/arguments/values.ts'
import { print, printJson } from '../shared/output.ts'
import { asking } from '../shared/service.ts'
import { revokeSettings } from './settings.ts'

/** Revokes a token at a service. */
export async function revoke(text: string, flags: Sources['flags']): Promise<void> {
  const token_id = argument('ID', text, idOf)
  const settings = settingsFrom(revokeSettings, flags)
  await asking(settings, async (ask) => {
    const answer = await ask({ method: 'POST', path: '/v1/tokens/revoke', body: { token_id } })
    if (settings.json) printJson(answer)
    else print(`The token ${token_id} is revoked on every replica.`)
  })
}

function idOf(text: string): string {
  if (/^ey[\w-]+\./.test(text)) throw new InvalidValue('must be the id that "tenure token sign" printed')
  return textOf(text)
}
