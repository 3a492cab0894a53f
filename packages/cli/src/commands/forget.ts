import type { CallOptions, Forgotten, LeaseRecord, LeaseStore } from 'tenure'
import { isTenureError } from 'tenure/internal/options'
import type { Declaration } from '../shared/arguments/declare.ts'
import { CommandError, exitCodes } from '../shared/arguments/errors.ts'
import { parseArgument, settingsFrom, toggle, type Sources } from '../shared/arguments/settings.ts'
import { json, storeSettings } from '../shared/arguments/store-settings.ts'
import { nameOf } from '../shared/arguments/values.ts'
import { callWithTimeout } from '../shared/call-with-timeout.ts'
import { print, printable, printJson } from '../shared/output.ts'
import { isService, openChosenStore, withStore } from '../shared/store.ts'

const help =
  'also remove the highest term: terms start again at 1, and a resource that checks terms rejects the next leaders; flag only'

export const forgetSettings = {
  ...storeSettings,
  withTerm: { ...toggle(help), withoutVariable: true },
  json,
}

/** `tenure forget`: removes the record of a released election. */
export const forgetCommand: Declaration = {
  name: 'forget',
  argument: '<election>',
  summary: 'Remove the record of a released election.',
  settings: forgetSettings,
  examples: [
    'tenure forget import-2026 --store file:///var/lib/leases',
    'tenure forget import-2026 --with-term --store etcd://10.0.0.1:2379',
  ],
  exitCodes:
    '0 if the record was removed or did not exist, 1 if the election has a leader or the store cannot forget, 2 for invalid usage, 69 if the store is unavailable',
  run: (flags, name) => forget(name, flags),
}

const termStays = ' If it was forgotten earlier without --with-term, its highest term is still stored.'

/** Removes the record of a released election, and with --with-term also its highest term. */
async function forget(name: string, flags: Sources['flags']): Promise<void> {
  const election = parseArgument('ELECTION', name, nameOf)
  const settings = settingsFrom(forgetSettings, flags)
  const { withTerm } = settings
  const store = await openChosenStore(settings)
  const { redactedUrl } = await import('tenure/stores')
  const { record, answer } = await withStore(store, () => {
    if (!store.forget) throw cannotForget(store, redactedUrl(settings.store ?? ''))
    return callWithTimeout(settings.timeout, (call) => removeRelease(store, { election, withTerm }, call))
  })
  const isForgotten = record !== undefined && (answer?.ok ?? false)
  const seen = answer && !answer.ok ? answer.record : record
  const { holder, term } = seen ?? {}
  if (seen && !isForgotten) {
    const text = seen.released
      ? `Another process led "${election}" in the meantime, up to term ${term}. Nothing was removed. Try again.`
      : `"${holder}" holds "${election}" in term ${term}. Only a released election can be forgotten.`
    throw new CommandError(printable(text), exitCodes.failed)
  }
  if (settings.json) printJson({ election, forgotten: isForgotten, ...(isForgotten && { term, withTerm }) })
  else if (!isForgotten) print(printable(`There is no record of "${election}".${withTerm ? termStays : ''}`))
  else if (withTerm)
    print(printable(`"${election}" is forgotten. Its terms begin again at 1; the highest was ${term}.`))
  else print(printable(`"${election}" is forgotten. Its next term is above ${term}.`))
}

async function removeRelease(
  store: LeaseStore,
  { election, withTerm }: { readonly election: string; readonly withTerm: boolean },
  call: CallOptions,
): Promise<{ readonly record: LeaseRecord | undefined; readonly answer?: Forgotten | undefined }> {
  const record = await store.read(election, call)
  if (!record?.released) return { record }
  const { version } = record
  const answer = await store.forget?.({ election, version, withTerm }, call).catch((error: unknown) => {
    if (withTerm || !isTenureError(error) || error.code !== 'INVALID_REQUEST') throw error
    const text = `This store keeps the highest term in the record. To forget "${election}", add --with-term.`
    throw new CommandError(printable(text), exitCodes.failed, { cause: error })
  })
  // The record is gone by now. This call itself may have removed it, if its first answer was lost and it was retried.
  if (answer && !answer.ok && !answer.record) return { record: undefined }
  return { record, answer }
}

function cannotForget(store: LeaseStore, url: string): CommandError {
  const instead = isService(store)
    ? ' On a service, an administrator can delete the election with DELETE /v1/groups/{id}.'
    : ''
  return new CommandError(`The store ${url} cannot forget elections.${instead}`, exitCodes.failed)
}
