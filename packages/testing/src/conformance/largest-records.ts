import type { LeaseRecord, Metadata } from 'tenure'
import { checkpointLimitOf, metadataLimitBytes } from 'tenure/internal'
import { longestNameBytes } from '@tenure/internal/names'
import type { Case } from './case.ts'
import { granted, refused, same } from './scene.ts'

/** The largest names, metadata, and checkpoint that the library allows, in text that needs the most bytes. */
export const largestCases: Case[] = [
  { text: 'takes four bytes per character', name: '🦊', checkpoint: '🦊' },
  // JSON doubles these characters, and JSON within JSON doubles them again. A control character takes six.
  { text: 'needs JSON escapes', name: '"\\', checkpoint: '\u0000' },
].map(({ text, name, checkpoint }): Case => ({
  name: `the largest record is stored unchanged when its text ${text}`,
  needs: ['terms'],
  async run(scene) {
    const election = filled(scene.election, name, longestNameBytes)
    const holder = filled('ada', name, scene.under.longestHolderBytes ?? longestNameBytes)
    const { record } = await scene.grant({ election, holder, metadata: largestMetadata(name) })
    const expected = { election, holder, metadata: largestMetadata(name), checkpoint: '' }
    sameContent('The grant', record, expected)
    sameContent('The stored record', await scene.read(election), expected)

    const full = { ...expected, checkpoint: filled('', checkpoint, checkpointLimitOf(scene.store)) }
    const renewal = await scene.renew(record, { checkpoint: full.checkpoint })
    const renewed = granted('renew', renewal, 'The claim names the current grant.').record
    sameContent('The renewed record', renewed, full)
    sameContent('The stored record', await scene.read(election), full)
    const refusal = refused('acquire', await scene.acquire({ election }), 'The lease is held.')
    sameContent('The record of the refusal', refusal.record, full)

    const freed = granted('release', await scene.release(renewed), 'The claim names the current grant.').record
    sameContent('The released record', freed, full)
    sameContent('The stored record', await scene.read(election), full)
    const next = await scene.grant({ election, holder, metadata: full.metadata, afterTerm: record.term })
    sameContent('The next grant', next.record, full)
    granted('release', await scene.release(next.record), 'The claim names the current grant.')
  },
}))

type Content = Pick<LeaseRecord, 'election' | 'holder' | 'metadata' | 'checkpoint'>

function sameContent(what: string, record: LeaseRecord | undefined, expected: Content): void {
  for (const field of ['election', 'holder', 'metadata', 'checkpoint'] as const) {
    same(`The ${field} of: ${what}`, record?.[field], expected[field], 'A store must not truncate or change it.')
  }
}

/** Returns `start` and as many whole repetitions of `fill` as fit, padded with letters to exactly `bytes` bytes. */
function filled(start: string, fill: string, bytes: number): string {
  const times = Math.floor((bytes - Buffer.byteLength(start)) / Buffer.byteLength(fill))
  const text = start + fill.repeat(times)
  return text + 'z'.repeat(bytes - Buffer.byteLength(text))
}

function largestMetadata(fill: string): Metadata {
  const bytesOf = (times: number) => Buffer.byteLength(JSON.stringify({ note: fill.repeat(times) }))
  const times = Math.floor((metadataLimitBytes - bytesOf(0)) / (bytesOf(1) - bytesOf(0)))
  return { note: fill.repeat(times) + 'z'.repeat(metadataLimitBytes - bytesOf(times)) }
}
