import type { Controller } from './controller.ts'
import { ElectionList } from './election-list.tsx'
import { ElectionPage } from './election-page.tsx'
import { Banner, Header } from './header.tsx'
import { SignIn } from './sign-in.tsx'

export interface PageProps {
  readonly controller: Controller
}

export function App({ controller }: PageProps) {
  const { signIn, shown } = controller.state
  return (
    <>
      <a class="skip" href="#main" onClick={toMain}>
        Skip to content
      </a>
      <Header controller={controller} />
      <Banner controller={controller} />
      <main id="main" tabIndex={-1}>
        {signIn ? (
          <SignIn controller={controller} message={signIn.message} />
        ) : shown === undefined ? (
          <ElectionList controller={controller} />
        ) : (
          <ElectionPage key={shown} controller={controller} id={shown} />
        )}
      </main>
    </>
  )
}

/** Moves the focus without changing the URL's fragment, which determines what is shown. */
function toMain(event: Event): void {
  event.preventDefault()
  document.getElementById('main')?.focus()
}
