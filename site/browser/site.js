/** The script of every page: search, colors, tabs, and the menu on small screens. It loads nothing from elsewhere. */
import MiniSearch from 'minisearch'
import { searchOptions } from '../search-options.js'

const page = document.documentElement
const base = page.dataset.base ?? '.'

/** Keeps a choice for the next page. Browsers may refuse this. */
function remember(name, value) {
  try {
    localStorage.setItem(name, value)
  } catch {}
}

function remembered(name) {
  try {
    return localStorage.getItem(name)
  } catch {
    return null
  }
}

document.querySelector('.theme').addEventListener('click', () => {
  page.dataset.theme = page.dataset.theme === 'dark' ? 'light' : 'dark'
  remember('tenureTheme', page.dataset.theme)
})

const menu = document.querySelector('button.menu')
menu.addEventListener('click', () => {
  const isOpen = page.classList.toggle('menu-open')
  menu.setAttribute('aria-expanded', String(isOpen))
})
const current = document.querySelector('#site-menu [aria-current]')
if (current) document.querySelector('#site-menu').scrollTop = current.offsetTop - 200

// Tabs: a language that a reader chooses is chosen everywhere.
function choose(language) {
  for (const group of document.querySelectorAll('.tabs')) {
    const buttons = [...group.querySelectorAll('[role=tab]')]
    if (!buttons.some((button) => button.dataset.language === language)) continue
    for (const button of buttons) {
      const isChosen = button.dataset.language === language
      button.setAttribute('aria-selected', String(isChosen))
      button.tabIndex = isChosen ? 0 : -1
      document.getElementById(button.getAttribute('aria-controls')).classList.toggle('unselected', !isChosen)
    }
  }
}

for (const list of document.querySelectorAll('.tabs [role=tablist]')) {
  const buttons = [...list.children]
  const pick = (button) => {
    choose(button.dataset.language)
    remember('tenureLanguage', button.dataset.language)
  }
  list.addEventListener('click', ({ target }) => {
    if (target.dataset.language) pick(target)
  })
  list.addEventListener('keydown', ({ key, target }) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[key]
    if (!step) return
    const next = buttons[(buttons.indexOf(target) + step + buttons.length) % buttons.length]
    next.focus()
    pick(next)
  })
}
const language = remembered('tenureLanguage')
if (language) choose(language)

for (const block of document.querySelectorAll('.code')) {
  const copy = document.createElement('button')
  copy.type = 'button'
  copy.className = 'copy'
  copy.textContent = 'Copy'
  const say = (text) => {
    copy.textContent = text
    setTimeout(() => (copy.textContent = 'Copy'), 2_000)
  }
  copy.addEventListener('click', () => {
    // A page from the file system or over plain HTTP may have no clipboard.
    const written = navigator.clipboard?.writeText(block.querySelector('code').textContent) ?? Promise.reject()
    written.then(
      () => say('Copied'),
      () => say('Not allowed'),
    )
  })
  block.append(copy)
}

const input = document.querySelector('.search input')
const results = document.querySelector('#site-results')
let loading

/** Loads the index as a script, because a page from the file system may not read other files. */
function loadIndex() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement('script')
    script.src = `${base}/assets/search-index.js`
    script.addEventListener('load', () => resolve(MiniSearch.loadJS(window.tenureSearchIndex, searchOptions)))
    script.addEventListener('error', () => reject(new Error('The search index is missing.')))
    document.head.append(script)
  })
  return loading
}

function show(hits) {
  results.replaceChildren(
    ...hits.map((hit, at) => {
      const item = document.createElement('li')
      item.role = 'option'
      item.id = `result-${at}`
      const link = document.createElement('a')
      link.href = `${base}/${hit.id}`
      const title = document.createElement('b')
      title.textContent = hit.title === hit.page ? hit.title : `${hit.page} › ${hit.title}`
      const start = document.createElement('small')
      start.textContent = hit.start
      link.append(title, start)
      item.append(link)
      return item
    }),
  )
  if (hits.length === 0 && input.value.trim() !== '') results.textContent = 'Nothing found'
  results.hidden = input.value.trim() === ''
  input.setAttribute('aria-expanded', String(!results.hidden))
}

async function search() {
  const words = input.value
  const index = await loadIndex()
  if (words !== input.value) return
  show(words.trim() === '' ? [] : index.search(words).slice(0, 12))
}

function close() {
  results.hidden = true
  input.setAttribute('aria-expanded', 'false')
}

input.addEventListener('focus', () => void loadIndex())
input.addEventListener('input', () => void search())
input.addEventListener('keydown', (event) => {
  const links = [...results.querySelectorAll('a')]
  if (event.key === 'Enter' && links[0]) links[0].click()
  if (event.key === 'ArrowDown' && links[0]) {
    event.preventDefault()
    links[0].focus()
  }
  if (event.key === 'Escape') close()
})
results.addEventListener('keydown', (event) => {
  const links = [...results.querySelectorAll('a')]
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
  if (event.key === 'Escape') {
    close()
    input.focus()
  }
  if (!step) return
  event.preventDefault()
  const next = links[links.indexOf(document.activeElement) + step]
  if (next) next.focus()
  else if (step < 0) input.focus()
})
results.addEventListener('click', ({ target }) => {
  if (target.closest('a')) close()
})
document.addEventListener('click', ({ target }) => {
  if (!target.closest('.search')) close()
})
document.addEventListener('keydown', (event) => {
  const isTyping = /^(?:INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? '')
  if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey) return
  event.preventDefault()
  input.focus()
})
