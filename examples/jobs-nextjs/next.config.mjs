// Keep tenure out of the bundle: it imports the code of a store at run time, and the file store has a native addon.
export default { serverExternalPackages: ['tenure'] }
