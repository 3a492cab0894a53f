/**
 * Merges states that behave alike: terms count from the newest one of their election, and the changes within a term are
 * numbered without gaps. Rules compare terms and epochs only with each other.
 */
import { changeOf, termOf } from '../../../src/shards/assignment.ts'
import type { ModelCall, ModelElection, ModelProcess, ModelRecord, ShardScene, ShardSetup } from './scene.ts'

/** The newest term of an election. Where terms are forgotten, terms up to this one are kept, and term 1 can recur. */
const newestTerm = 3
const epochField = /"(epoch|token|since|seen|confirmedEpoch)":(\d+)/g

type Shift = (term: number) => number

/** Returns the scene with terms that count from the newest. */
export function withShiftedTerms(
  scene: ShardScene,
  setup: ShardSetup,
): { readonly scene: ShardScene; readonly group: Shift } {
  const calls = scene.processes.flatMap(({ coordinator, inbox }) => [
    ...(coordinator === 0 ? [] : coordinator.calls),
    ...(inbox === 0 ? [] : [inbox.call]),
  ])
  const all = [...calls, ...scene.late]
  const groupTerms = [scene.group.highestTerm, scene.group.record?.term ?? 0, termOf(scene.token)]
  for (const { coordinator, afterTerm, member } of scene.processes) {
    groupTerms.push(afterTerm, termOf(member.seen?.epoch ?? 0), coordinator === 0 ? 0 : coordinator.state.term)
  }
  for (const call of all) if (!('seat' in call) && 'afterTerm' in call) groupTerms.push(call.afterTerm)
  for (const { record } of scene.seats)
    if (record && record.checkpoint !== 0 && 'seen' in record.checkpoint)
      groupTerms.push(termOf(record.checkpoint.seen))
  const group = shiftFor(groupTerms, setup)
  const seats = scene.seats.map((election, seat) => {
    const terms = [election.highestTerm, election.record?.term ?? 0]
    for (const { member, seatTerm, coordinator } of scene.processes) {
      if (member.member?.seat === seat) terms.push(seatTerm)
      if (coordinator !== 0) terms.push(coordinator.state.seats[seat]?.term ?? 0)
    }
    for (const call of all) if ('seat' in call && call.seat === seat && 'afterTerm' in call) terms.push(call.afterTerm)
    return shiftFor(terms, setup)
  })
  const shiftOf = (call: ModelCall): Shift => ('seat' in call ? (seats[call.seat] ?? same) : group)
  const onCall = (call: ModelCall): ModelCall => {
    const shift = shiftOf(call)
    if ('afterTerm' in call) return { ...call, afterTerm: shift(call.afterTerm) }
    return 'term' in call ? { ...call, term: shift(call.term) } : call
  }
  const onProcess = (process: ModelProcess): ModelProcess => {
    const { coordinator, inbox, member } = process
    return {
      ...process,
      seatTerm: member.member ? (seats[member.member.seat] ?? same)(process.seatTerm) : 0,
      seatVersion: member.member ? process.seatVersion : '',
      sentTicks: member.member ? process.sentTicks : 0,
      afterTerm: group(process.afterTerm),
      inbox:
        inbox === 0
          ? 0
          : {
              ...inbox,
              call: onCall(inbox.call),
              answer: {
                ...inbox.answer,
                record: inbox.answer.record === 0 ? 0 : onRecord(inbox.answer.record, shiftOf(inbox.call)),
              },
            },
      coordinator:
        coordinator === 0
          ? 0
          : {
              ...coordinator,
              calls: coordinator.calls.map(onCall),
              round: coordinator.round.map((record, seat) =>
                record === 0 ? 0 : { ...record, term: (seats[seat] ?? same)(record.term) },
              ),
              state: {
                ...coordinator.state,
                acquireCount: 0,
                term: group(coordinator.state.term),
                seats: coordinator.state.seats.map(
                  (view, seat) => view && { ...view, term: (seats[seat] ?? same)(view.term) },
                ),
              },
            },
    }
  }
  return {
    group,
    scene: {
      ...scene,
      names: 0,
      group: onElection(scene.group, group),
      seats: scene.seats.map((election, seat) => onElection(election, seats[seat] ?? same)),
      processes: scene.processes.map(onProcess),
      late: scene.late.map(onCall),
    },
  }
}

/** Returns the text with epochs whose terms are shifted and whose changes have no gaps. */
export function withShiftedEpochs(text: string, shift: Shift): string {
  const found = new Set<number>()
  for (const [, , epoch] of text.matchAll(epochField)) found.add(Number(epoch))
  const renamed = new Map<number, number>([[0, 0]])
  let [lastTerm, change] = [-1, 0]
  for (const epoch of [...found].toSorted((one, other) => one - other)) {
    if (epoch === 0) continue
    const term = shift(termOf(epoch))
    change = term === lastTerm ? change + 1 : 0
    lastTerm = term
    renamed.set(epoch, term * 65_536 + Math.min(change, changeOf(65_535)))
  }
  return text.replaceAll(
    epochField,
    (_, field: string, epoch: string) => `"${field}":${renamed.get(Number(epoch)) ?? 0}`,
  )
}

function same(term: number): number {
  return term
}

function shiftFor(terms: readonly number[], { keepsTerms }: ShardSetup): Shift {
  const newest = Math.max(...terms)
  const by = keepsTerms ? newestTerm - newest : Math.min(0, newestTerm - newest)
  return (term) => (term === 0 ? 0 : Math.max(1, term + by))
}

function onElection(election: ModelElection, shift: Shift): ModelElection {
  const { record, highestTerm } = election
  return { ...election, highestTerm: shift(highestTerm), record: record && onRecord(record, shift) }
}

function onRecord(record: ModelRecord, shift: Shift): ModelRecord {
  return { ...record, term: shift(record.term) }
}
