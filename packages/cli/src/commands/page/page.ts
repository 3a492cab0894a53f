import { secret } from '@tenure/internal/clock'
import { usageError } from '../../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../../shared/arguments/settings.ts'
import { callWithTimeout } from '../../shared/call-with-timeout.ts'
import { stopOnSignals } from '../../shared/shutdown.ts'
import { commandErrorOf } from '../../shared/failures.ts'
import { makeLog } from '../../shared/log.ts'
import { print, tell } from '../../shared/output.ts'
import { noteMissingFolder, noteMissingNamespace, openChosenStore } from '../../shared/store.ts'
import { ErrorLog } from '../../shared/error-log.ts'
import { PageServer } from './page-server.ts'
import { pageSettings } from './command.ts'
import { Observations } from './observed-elections.ts'
import { StoreAnswers } from './store-answers.ts'

const secretBytes = 24

/** Shows the elections of a store in a browser until a signal arrives. */
export async function page(flags: Sources['flags']): Promise<void> {
  const settings = settingsFrom(pageSettings, flags)
  const { timeout: timeoutMs, store: url = '' } = settings
  const store = await openChosenStore(settings)
  noteMissingFolder(settings)
  if (!store.list) throw usageError(['This store cannot list its elections, so the page would be empty.'])
  const list = store.list.bind(store)
  try {
    // A store that does not answer now is probably the wrong one, so report it before printing an address.
    const first = await callWithTimeout(timeoutMs, (call) => list({ limit: 1 }, call))
    if (first.records.length === 0) await noteMissingNamespace(store, timeoutMs)
  } catch (error) {
    await store.close?.()
    throw commandErrorOf(error)
  }
  const log = makeLog(false)
  const troubles = new ErrorLog()
  const onError = (error: unknown) => {
    const text = commandErrorOf(error).message
    if (troubles.shouldReport(text, { ofRenewal: false })) log.warn({}, text)
  }
  const onAnswer = () => {
    if (troubles.end({ ofRenewal: false })) log.info({}, 'the store answers again')
  }
  const observations = new Observations({ store, timeoutMs, onError, onAnswer })
  const answers = new StoreAnswers({ store, list, observations, timeoutMs, kind: /^[\w+]+/.exec(url)?.[0] ?? 'store' })
  const token = secret(secretBytes).toString('base64url')
  const server = await PageServer.listen({ listen: settings.listen, token, answers })
  tell(
    'Open this address in a browser. It works until this command ends. Anyone who has the address can read what you can read.',
  )
  print(`${server.url}/#token=${token}`)
  stopOnSignals(log, async () => {
    await server.close()
    observations.close()
    await store.close?.()
  })
}
