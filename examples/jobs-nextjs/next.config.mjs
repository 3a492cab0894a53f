// Keep tenure out of the bundle: it imports the parts for a store at run time, and the file store has a native part.
export default { serverExternalPackages: ['tenure'] }
