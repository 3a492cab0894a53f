import { colourOf } from '../model/palette.ts'
import { visible } from '../model/text.ts'

/** A name or a text of somebody else. Whatever is in it, it stays in its place. */
export function Name({ of, class: kind = '' }: { readonly of: string; readonly class?: string }) {
  const text = visible(of)
  return (
    <bdi class={`name ${kind}`} title={text}>
      {text}
    </bdi>
  )
}

/** A node, with the colour that it has in the time-lines. */
export function Node({ of }: { readonly of: string }) {
  return (
    <span class="node">
      <span class={`dot c${colourOf(of)}`} aria-hidden="true" />
      <Name of={of} />
    </span>
  )
}
