import { render } from 'preact'
import { App } from './app.tsx'
import { Controller } from './controller.ts'

/**
 * `#/groups/NAME` is the page of one election. A token in the address is taken out of it at once, even one that is pasted
 * into the address of an open page, and whatever is around it.
 */
function takePlace(): { readonly shown: string | undefined; readonly token: string | undefined } {
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
  // Whatever comes within a frame is drawn once, and is seen no later for it.
  const draw = () => {
    if (isDue) return
    isDue = true
    requestAnimationFrame(() => {
      isDue = false
      render(<App controller={controller} />, root)
    })
  }
  const controller = new Controller(draw)
  const { shown, token } = takePlace()
  controller.show(shown)
  window.addEventListener('hashchange', () => {
    const next = takePlace()
    controller.show(next.shown)
    if (next.token !== undefined) controller.signIn(next.token)
    window.scrollTo(0, 0)
  })
  root.replaceChildren()
  controller.start(token)
  draw()
}
