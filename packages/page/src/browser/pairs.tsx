import { visible } from '../model/text.ts'
import { Name } from './name.tsx'

/** Shows untrusted keys and values. */
export function Pairs({ of, none }: { readonly of: Readonly<Record<string, unknown>>; readonly none: string }) {
  const pairs = Object.entries(of)
  if (pairs.length === 0) return <p class="quiet">{none}</p>
  return (
    <dl class="pairs">
      {pairs.map(([name, value]) => (
        <div key={name}>
          <dt>
            <Name of={name} />
          </dt>
          <dd>{visible(typeof value === 'string' ? value : JSON.stringify(value))}</dd>
        </div>
      ))}
    </dl>
  )
}
