// Does nothing: what Node itself takes to run a module.
export {}
