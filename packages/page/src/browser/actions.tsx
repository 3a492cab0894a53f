import { useEffect, useRef, useState } from 'preact/hooks'
import type { Election } from '../model/elections.ts'
import { duration, visible } from '../model/text.ts'
import type { PageProps } from './app.tsx'
import { Name } from './name.tsx'

interface Question {
  readonly title: string
  readonly text: string
  readonly yes: string
  readonly run: () => Promise<void>
}

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

function Confirm({ id, question, onClose }: { id: string; question: Question; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [failure, setFailure] = useState('')
  const [isBusy, setBusy] = useState(false)
  useEffect(() => dialog.current?.showModal(), [])
  const confirm = () => {
    setBusy(true)
    question.run().then(onClose, (error: unknown) => {
      setBusy(false)
      setFailure(error instanceof Error ? error.message : String(error))
    })
  }
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="question" aria-describedby="meaning">
      <h2 id="question">{question.title}</h2>
      <p>
        <Name of={id} class="strong" />
      </p>
      <p id="meaning">{question.text}</p>
      {failure !== '' && (
        <p class="refusal" role="alert">
          {failure}
        </p>
      )}
      <div class="answers">
        <button type="button" onClick={() => dialog.current?.close()}>
          Cancel
        </button>
        <button type="button" class="danger filled" disabled={isBusy} onClick={confirm}>
          {question.yes}
        </button>
      </div>
    </dialog>
  )
}
