import { render } from 'preact'
import { App } from './app.tsx'
import { Controller } from './controller.ts'

/**
 * Reads the view to show, and a token, from the URL. `#/groups/NAME` is the page of one election. A fragment that
 * starts with `#token=` is removed from the URL immediately, even if the token is malformed or was pasted into the URL
 * of an open page.
 */
function readLocation(): { readonly shown: string | undefined; readonly token: string | undefined } {
  const { hash, pathname, search } = location
  if (hash.startsWith('#token=')) history.replaceState(null, '', pathname + search)
  const [, token] = /^#token=([\w.-]+)(?:%20)*$/.exec(hash) ?? []
  const [, name] = /^#\/groups\/(.+)$/.exec(hash) ?? []
  try {
    return { shown: name === undefined ? undefined : decodeURIComponent(name), token }
  } catch {
    return { shown: undefined, token }
  }
}

const root = document.getElementById('app')
if (root) {
  let isDue = false
  // All changes within one animation frame are drawn once.
  const draw = () => {
    if (isDue) return
    isDue = true
    requestAnimationFrame(() => {
      isDue = false
      render(<App controller={controller} />, root)
    })
  }
  const controller = new Controller(draw)
  const { shown, token } = readLocation()
  controller.show(shown)
  window.addEventListener('hashchange', () => {
    const next = readLocation()
    controller.show(next.shown)
    if (next.token !== undefined) controller.signIn(next.token)
    window.scrollTo(0, 0)
  })
  root.replaceChildren()
  controller.start(token)
  draw()
}
