import type { ShownJob } from '../model/jobs.ts'
import { duration, visible } from '../model/text.ts'
import { Name, Node } from './name.tsx'
import { exactly, moment } from './times.ts'

interface JobDetailsProps {
  readonly job: ShownJob
  readonly nowMs: number
  readonly leaderTerm: number | undefined
}

/** The job of an election and the results of its runs. */
export function Job({ job, nowMs, leaderTerm }: JobDetailsProps) {
  const { schedule, timezone, nextRunMs, doneMs, runs } = job
  return (
    <section class="card" aria-labelledby="job">
      <h2 id="job">Job</h2>
      <dl class="facts">
        {schedule !== undefined && (
          <div>
            <dt>Schedule</dt>
            <dd>
              <Name of={[schedule, timezone].filter(Boolean).join(' ')} />
            </dd>
          </div>
        )}
        {nextRunMs !== undefined && (
          <div title={exactly(nextRunMs)}>
            <dt>Next run</dt>
            <dd>{nextRunMs > nowMs ? `in ${duration(nextRunMs - nowMs)}` : `due since ${moment(nextRunMs, nowMs)}`}</dd>
          </div>
        )}
        {doneMs !== undefined && (
          <div title={exactly(doneMs)}>
            <dt>Done</dt>
            <dd>{moment(doneMs, nowMs)}</dd>
          </div>
        )}
      </dl>
      {runs.length > 0 && (
        <table class="runs">
          <caption class="heard">Runs, newest first</caption>
          <thead>
            <tr>
              <th scope="col">Run of</th>
              <th scope="col">Result</th>
              <th scope="col" class="number">
                Took
              </th>
              <th scope="col">By</th>
            </tr>
          </thead>
          <tbody>
            {runs.map(({ atMs, result, durationMs, by, term, error }) => {
              const outcome = result ?? (term === leaderTerm ? 'running' : 'lost')
              return (
                <tr key={atMs}>
                  <td title={exactly(atMs)}>{moment(atMs, nowMs)}</td>
                  <td>
                    <span class={`result ${/^[a-z-]{1,20}$/.test(outcome) ? outcome : ''}`}>{visible(outcome)}</span>
                    {error !== undefined && <p class="failure">{visible(error)}</p>}
                  </td>
                  <td class="number">{durationMs === undefined ? '–' : duration(durationMs)}</td>
                  <td>{by === undefined ? '–' : <Node of={by} />}</td>
                </tr>
              )
            })}
          </tbody>
        </table>
      )}
    </section>
  )
}
