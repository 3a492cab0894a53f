// Left out of the bundle: the library loads what a store needs when it is opened, and the file store has a native part.
export default { serverExternalPackages: ['tenure'] }
