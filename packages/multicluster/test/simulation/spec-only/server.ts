/** The global store in the model: the real rules of all stores, applied to one record. */
import {
  granted,
  judgeAcquire,
  judgeRelease,
  judgeRenew,
  type Current,
} from '../../../../tenure/src/store-kit/rules.ts'
import type { GlobalCall } from '../../../../tenure/src/multicluster/protocol/request-codec.ts'
import type { Answer, Scene, Setup } from './scene.ts'

/** Carries out a call. */
export function carryOut(scene: Scene, call: GlobalCall, { expiry }: Setup): { scene: Scene; answer: Answer } {
  const { server } = scene
  if (call.verb === 'read') return { scene, answer: { found: server.record } }
  const current: Current = {
    record: server.record,
    highestTerm: server.highestTerm,
    remainingMs: expiry === 'own-clock' && server.highestTerm > 0 ? server.endsAtMs : undefined,
    lastDurationMs: server.lastDurationMs,
  }
  const verdict =
    call.verb === 'acquire'
      ? judgeAcquire(current, call.claim, 0)
      : call.verb === 'renew'
        ? judgeRenew(current, call.claim, 0)
        : judgeRelease(current, call.claim)
  if ('answer' in verdict) return { scene, answer: { outcome: verdict.answer } }
  const names = scene.names + 1
  const record = { ...verdict.write, version: `n${names}` }
  const after = {
    record,
    highestTerm: Math.max(server.highestTerm, record.term),
    lastDurationMs: record.leaseDurationMs,
    endsAtMs: record.released ? 0 : record.leaseDurationMs,
  }
  return { scene: { ...scene, names, server: after }, answer: { outcome: granted(record, call.claim) } }
}
