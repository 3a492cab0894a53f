import { useState } from 'preact/hooks'
import type { Election } from '../model/elections.ts'
import { duration, visible } from '../model/text.ts'
import type { PageProps } from './app.tsx'
import { Confirm, type Question } from './confirm.tsx'

/** The actions of an administrator, each with a confirmation. */
export function Actions({ controller, election }: PageProps & { readonly election: Election }) {
  const [question, ask] = useState<Question | undefined>(undefined)
  const { id, leader } = election
  const keptOut = leader ? `Nobody else can lead before its lease of ${duration(leader.ttlMs)} would have expired.` : ''
  return (
    <div class="actions">
      <button
        type="button"
        disabled={!leader}
        onClick={() =>
          leader &&
          ask({
            title: 'End this term?',
            text: `${visible(leader.node)} stops leading in term ${leader.term} when it next renews. ${keptOut}`,
            yes: 'End the term',
            run: () => controller.resign(id, leader.node, leader.term),
          })
        }
      >
        Resign…
      </button>
      <button
        type="button"
        class="danger"
        onClick={() =>
          ask({
            title: 'Remove this election?',
            text: `Its definition, its checkpoint and its members are deleted. The next campaign may create it again, and its terms then continue. ${keptOut}`,
            yes: 'Remove the election',
            run: () => controller.remove(id),
          })
        }
      >
        Remove…
      </button>
      {question && <Confirm id={id} question={question} onClose={() => ask(undefined)} />}
    </div>
  )
}
