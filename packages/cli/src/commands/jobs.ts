import { finishedIn } from '@tenure/page/model/jobs'
import type { LeaseRecord } from 'tenure'
import type { JobRun, JobStatus } from 'tenure/jobs'
import type { Declaration } from '../shared/arguments/declare.ts'
import { usageError } from '../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { json, storeSettings } from '../shared/arguments/store-settings.ts'
import { callWithTimeout } from '../shared/call-with-timeout.ts'
import { wallMs } from '../shared/clock.ts'
import { estimatedRemainingMs } from '../shared/election-status.ts'
import { exitWhenReaderGone, print, printTable, formatShortDuration, tell } from '../shared/output.ts'
import { readAllPages, pageSize } from '../shared/read-all-pages.ts'
import { noteMissingFolder, noteMissingNamespace, openChosenStore, withStore } from '../shared/store.ts'

export const jobsSettings = { ...storeSettings, json }

/** `tenure jobs`: lists jobs and their last runs. */
export const jobsCommand: Declaration = {
  name: 'jobs',
  summary: 'List the jobs of a store: the last run of each, its result, and the next run.',
  settings: jobsSettings,
  examples: [
    'tenure jobs --store file:///var/lib/leases',
    `tenure jobs --store postgres://host/database --json | jq -r 'select(.runs[0].result == "failed").name'`,
  ],
  notes: ['These are the jobs of tenure run --every and --at-most-once-per, and of tenure/jobs in code.'],
  exitCodes: '0 on success, 2 for invalid usage, 69 if the store is unavailable',
  run: (flags) => jobs(flags),
}

/** The number of characters of an error that fit into the table. */
const longestError = 60

/** Lists the jobs of a store. These are the elections whose record contains a job state. */
async function jobs(flags: Sources['flags']): Promise<void> {
  const settings = settingsFrom(jobsSettings, flags)
  const store = await openChosenStore(settings)
  const { jobStatus } = await import('tenure/jobs')
  noteMissingFolder(settings)
  exitWhenReaderGone()
  await withStore(store, async () => {
    if (!store.list) throw usageError(['This store cannot list its elections.'])
    const ends = new Map<JobStatus, string>()
    const statusOf = (record: LeaseRecord) => {
      const job = jobStatus(record)
      const last = { checkpoint: record.checkpoint, ttlMs: record.leaseDurationMs }
      const end = record.released || estimatedRemainingMs(record) <= 0 ? finishedIn(last, wallMs()) : undefined
      if (job && end !== undefined) ends.set(job, end)
      return job ?? []
    }
    const listed = await readAllPages<JobStatus>(settings, async (after) => {
      const page = await callWithTimeout(settings.timeout, async (call) =>
        store.list?.({ limit: pageSize, after }, call),
      )
      for (const problem of page?.problems ?? []) tell(problem)
      return { items: page?.records.flatMap(statusOf) ?? [], next: page?.next }
    })
    if (listed.length === 0) await noteMissingNamespace(store, settings.timeout)
    if (settings.json) return
    if (listed.length === 0) return print('There are no jobs.')
    const head = ['JOB', 'SCHEDULE', 'NEXT', 'LAST', 'RESULT', 'TOOK', 'BY', 'TERM', 'ERROR']
    const sorted = listed.toSorted(byName)
    const rows = sorted.map((job) => rowOf(job, ends.get(job)))
    const over = sorted.map((job) => ends.has(job))
    printTable(head, rows, (row) => over[row] ?? false)
  })
}

function byName(one: JobStatus, other: JobStatus): number {
  return one.name < other.name ? -1 : 1
}

function rowOf(job: JobStatus, end: string | undefined): string[] {
  const run = job.running ?? job.runs[0]
  const schedule = [job.schedule ?? '-', job.timezone].filter(Boolean).join(' ')
  return [
    job.name,
    schedule,
    end ?? (job.nextRun ? nextText(job.nextRun) : '-'),
    (run?.scheduledAt ?? job.doneAt ?? job.lastRun)?.toISOString() ?? '-',
    job.running ? 'running' : (run?.result ?? '-'),
    durationText(run),
    run?.by ?? '-',
    run?.term === undefined ? '-' : String(run.term),
    short(run?.error ?? ''),
  ]
}

/**
 * Formats the time of the next run. A time in the past means that the run is due: nobody leads, or the previous run is
 * still in progress.
 */
function nextText(next: Date): string {
  return next.getTime() > wallMs() ? next.toISOString() : `${next.toISOString()} (due)`
}

function durationText(run: JobRun | undefined): string {
  if (run?.durationMs !== undefined) return formatShortDuration(run.durationMs)
  if (!run?.begunAt || run.result !== undefined) return '-'
  return `${formatShortDuration(Math.max(0, wallMs() - run.begunAt.getTime()))} so far`
}

function short(text: string): string {
  return text.length > longestError ? `${text.slice(0, longestError)}…` : text
}
