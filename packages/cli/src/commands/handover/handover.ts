import { systemClock } from '@tenure/internal/clock'
import { pause } from '@tenure/internal/pause'
import { processName } from '@tenure/internal/process-name'
import type { LeaseStore } from 'tenure'
import { requestHandOver, type HandOverOutcome } from 'tenure/internal'
import type { ServiceStore } from 'tenure/stores/service'
import { exitCodes, usageError } from '../../shared/arguments/errors.ts'
import { parseArgument, settingsFrom, type Sources } from '../../shared/arguments/settings.ts'
import { nameOf } from '../../shared/arguments/values.ts'
import { callWithTimeout } from '../../shared/call-with-timeout.ts'
import { print, printable, printJson } from '../../shared/output.ts'
import { groupPath } from '../../shared/service.ts'
import { leaderOf, listOf } from '../../shared/service-answers.ts'
import { signalExitCode } from '../../shared/shutdown.ts'
import { isService, openChosenStore, withStore } from '../../shared/store.ts'
import { handoverSettings } from './command.ts'

const pollIntervalMs = 500

interface Asked {
  readonly election: string
  readonly to: string
  readonly waitMs: number
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** Asks the leader to hand over, waits, and prints what happened. */
export async function handover(name: string, flags: Sources['flags']): Promise<void> {
  const election = parseArgument('ELECTION', name, nameOf)
  const settings = settingsFrom(handoverSettings, flags)
  const { to, wait: waitMs, timeout: timeoutMs } = settings
  if (to === undefined)
    throw usageError(['--to is missing. It must be the identity of the candidate that should lead.'])
  const store = await openChosenStore(settings)
  const ended = new AbortController()
  let endedBy: NodeJS.Signals | undefined
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
    // The request leaves its seat before the command exits.
    process.once(signal, () => {
      endedBy = signal
      ended.abort()
    })
  }
  const asked = { election, to, waitMs, timeoutMs, signal: ended.signal }
  const outcome = await withStore(store, () =>
    ask(store, asked).catch((error: unknown) => {
      if (endedBy === undefined) throw error
      return undefined
    }),
  )
  if (!outcome) {
    process.exitCode = signalExitCode(endedBy ?? 'SIGTERM')
    return
  }
  const isDone = outcome.result === 'handed-over' || outcome.result === 'already-leads'
  if (settings.json) printJson({ election, to, ...fieldsOf(outcome) })
  else print(printable(sentenceOf(outcome, asked)))
  if (!isDone) process.exitCode = exitCodes.failed
}

function ask(store: LeaseStore, asked: Asked): Promise<HandOverOutcome> {
  if (isService(store)) return resignFor(store, asked)
  const identity = processName(systemClock.randomId())
  return requestHandOver(store, { ...asked, identity, clock: systemClock })
}

/** Ends the leader's term at a service, in favor of the candidate. The service requires an administrator's token. */
async function resignFor(service: ServiceStore, asked: Asked): Promise<HandOverOutcome> {
  const { to, waitMs, timeoutMs, signal } = asked
  const path = groupPath(asked.election)
  const send = (request: Parameters<ServiceStore['request']>[0]) =>
    callWithTimeout(timeoutMs, (call) => service.request(request, call))
  const leaderNow = async () => leaderOf((await send({ method: 'GET', path: `${path}/leader` }))['leader'])
  const before = await leaderNow()
  if (!before) return { result: 'no-leader' }
  const { node_id, term } = before
  if (node_id === to) return { result: 'already-leads', term }
  const members = listOf(await send({ method: 'GET', path: `${path}/members` }), 'members')
  if (!members.some((member) => member['node_id'] === to && member['live'] !== false)) return { result: 'not-present' }
  await send({ method: 'POST', path: `${path}/resign`, body: { node_id, term, successor: to, force: true } })
  const untilMs = systemClock.monotonicMs() + waitMs
  while (systemClock.monotonicMs() < untilMs) {
    await pause(systemClock, pollIntervalMs, signal)
    signal.throwIfAborted()
    const leader = await leaderNow()
    if (!leader || leader.term <= term) continue
    if (leader.node_id === to) return { result: 'handed-over', term: leader.term }
    return { result: 'led-by-other', holder: leader.node_id, term: leader.term }
  }
  return { result: 'nobody-leads', holder: node_id, term }
}

/** The fields for `--json`. */
function fieldsOf(outcome: HandOverOutcome): Record<string, unknown> {
  if (outcome.result !== 'no-seat') return { ...outcome }
  return { result: outcome.result, problem: outcome.problem?.message }
}

function sentenceOf(outcome: HandOverOutcome, { election, to, waitMs }: Asked): string {
  switch (outcome.result) {
    case 'handed-over':
      return `"${election}" was handed over: "${to}" leads in term ${outcome.term}.`
    case 'already-leads':
      return `"${to}" already leads "${election}" in term ${outcome.term}.`
    case 'no-leader':
      return `Nobody leads "${election}", so nobody can hand it over.`
    case 'not-present':
      return `"${to}" is not present in "${election}", so nothing was handed over. Start it with "present", or see tenure members.`
    case 'not-eligible':
      return `"${to}" is not eligible to lead "${election}" now, so nothing was handed over.`
    case 'led-by-other':
      return `"${outcome.holder}" leads "${election}" in term ${outcome.term}, instead of "${to}".`
    case 'nobody-leads':
      return `"${outcome.holder}" no longer leads "${election}" in term ${outcome.term}, but nobody leads it yet after ${waitMs / 1_000} s.`
    case 'no-reaction': {
      const { holder, term, isPresent, isCandidateLive } = outcome
      const why = !isPresent
        ? 'It is not present, so it reads no requests: start it with "present".'
        : isCandidateLive
          ? 'Its work may not have settled yet, or its version is too old.'
          : `"${to}" did not renew its seat meanwhile, so it may have crashed. Try again with a --wait of one lease.`
      return `"${holder}" still leads "${election}" in term ${term} after ${waitMs / 1_000} s. ${why}`
    }
    case 'no-seat':
      return (
        outcome.problem?.message ?? `The request got no seat of "${election}" within ${waitMs / 1_000} s. Try again.`
      )
  }
}
