import { useEffect, useRef } from 'preact/hooks'
import type { PageProps } from './app.tsx'

/** Asks for a token. The token is kept in memory, and is gone when the page is closed or reloaded. */
export function SignIn({ controller, message }: PageProps & { readonly message: string }) {
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => field.current?.focus(), [])
  const submit = (event: Event) => {
    event.preventDefault()
    controller.signIn(field.current?.value.trim() ?? '')
  }
  return (
    <form class="sign-in" onSubmit={submit} autocomplete="off">
      <h1>Token</h1>
      <p>This service requires a token. The page keeps it in memory and sends it only to this service.</p>
      {message !== '' && (
        <p class="refusal" role="alert">
          {message}
        </p>
      )}
      <label for="token">Token</label>
      <div class="together">
        <input
          ref={field}
          id="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          placeholder="eyJhbGciOi…"
          aria-invalid={message !== ''}
        />
        <button type="submit" class="main">
          Show elections
        </button>
      </div>
    </form>
  )
}
