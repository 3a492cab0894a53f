/** A promise that a test settles on demand. `Promise.withResolvers` needs a newer Node. */
export function makeGate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}
