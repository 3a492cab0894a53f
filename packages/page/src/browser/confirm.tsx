import { useEffect, useRef, useState } from 'preact/hooks'
import { Name } from './name.tsx'

/** What an administrator must confirm, and what happens then. */
export interface Question {
  readonly title: string
  readonly text: string
  readonly yes: string
  readonly run: () => Promise<void>
}

/** Asks for confirmation. It stays open while the request runs, and shows why the server refused it. */
export function Confirm({ id, question, onClose }: { id: string; question: Question; onClose: () => void }) {
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
