import { colorOf } from '../model/palette.ts'
import { visible } from '../model/text.ts'

/** Shows untrusted text. Its content cannot affect the layout around it. */
export function Name({ of, class: kind = '' }: { readonly of: string; readonly class?: string }) {
  const text = visible(of)
  return (
    <bdi class={`name ${kind}`} title={text}>
      {text}
    </bdi>
  )
}

/** Shows a node with its color in the timelines. */
export function Node({ of }: { readonly of: string }) {
  return (
    <span class="node">
      <span class={`dot c${colorOf(of)}`} aria-hidden="true" />
      <Name of={of} />
    </span>
  )
}
