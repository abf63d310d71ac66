// Small parts that the views share.
import { Alert, Badge, Box, Button, Checkbox, Dialog, HStack, Portal, Spinner, Table, VisuallyHidden } from "@chakra-ui/react";
import { Component, type ReactNode, useEffect, useRef, useState } from "react";
import { mark, palette } from "./words";

/** A table of which each column has a title. */
export function TitledTable({ label, titles, children }: { label: string; titles: string[]; children: ReactNode }) {
  return (
    <Table.Root size="sm" aria-label={label}>
      <Table.Header>
        <Table.Row>
          {titles.map((title) => (
            <Table.ColumnHeader key={title}>{title}</Table.ColumnHeader>
          ))}
        </Table.Row>
      </Table.Header>
      <Table.Body>{children}</Table.Body>
    </Table.Root>
  );
}

/** A checkbox whose label is for screen readers, or with `isShown` for all. */
export function Tick({ label, checked, change, isShown = false }: { label: string; checked: boolean; change: () => void; isShown?: boolean }) {
  return (
    <Checkbox.Root size="sm" checked={checked} onCheckedChange={change}>
      <Checkbox.HiddenInput />
      <Checkbox.Control />
      <Checkbox.Label>{isShown ? label : <VisuallyHidden>{label}</VisuallyHidden>}</Checkbox.Label>
    </Checkbox.Root>
  );
}

export function State({ state, note }: { state: string | null; note?: string }) {
  return (
    <Badge colorPalette={palette(state)} variant={state === "STOPPED" ? "outline" : "subtle"}>
      <span aria-hidden="true">{mark(state)}</span> {state ?? "NO STATUS"}
      {note ? ` ${note}` : ""}
    </Badge>
  );
}

export function Problem({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Alert.Root status="error" role="alert" my={2}>
      <Alert.Indicator />
      <Alert.Content>
        <Alert.Title>{title}</Alert.Title>
        {children ? <Alert.Description whiteSpace="pre-wrap">{children}</Alert.Description> : null}
      </Alert.Content>
    </Alert.Root>
  );
}

export function Waiting({ what }: { what: string }) {
  return (
    <HStack role="status" p={4}>
      <Spinner size="sm" aria-hidden="true" /> {what}
    </HStack>
  );
}

export type Said = { kind: "success" | "error"; text: string } | null;

/** What the last action did, read out by screen readers. */
export function Notice({ said, clear }: { said: Said; clear: () => void }) {
  return (
    <Box role="status" aria-live="polite">
      {said ? (
        <Alert.Root status={said.kind} my={2}>
          <Alert.Indicator />
          <Alert.Content>
            <Alert.Description whiteSpace="pre-wrap">{said.text}</Alert.Description>
          </Alert.Content>
          <Button size="xs" variant="ghost" onClick={clear}>
            Dismiss
          </Button>
        </Alert.Root>
      ) : null}
    </Box>
  );
}

export type Question = { title: string; text: string; label: string; act: () => Promise<unknown> | void };

/** Asks before something that cannot simply be taken back. */
export function Confirm({ question, close }: { question: Question | null; close: () => void }) {
  const [busy, setBusy] = useState(false);
  const cancel = useRef<HTMLButtonElement>(null);
  const last = useRef<Question | null>(null);
  if (question) last.current = question;
  const shown = last.current;
  const yes = async () => {
    setBusy(true);
    try {
      await question?.act();
    } finally {
      setBusy(false);
      close();
    }
  };
  return (
    <Dialog.Root role="alertdialog" open={question !== null} onOpenChange={() => (busy ? undefined : close())} initialFocusEl={() => cancel.current}>
      <Portal>
        <Dialog.Backdrop />
        <Dialog.Positioner>
          <Dialog.Content>
            <Dialog.Header>
              <Dialog.Title>{shown?.title}</Dialog.Title>
            </Dialog.Header>
            <Dialog.Body whiteSpace="pre-wrap">{shown?.text}</Dialog.Body>
            <Dialog.Footer>
              <Button ref={cancel} variant="outline" onClick={close} disabled={busy}>
                Cancel
              </Button>
              <Button colorPalette="red" onClick={() => void yes()} loading={busy}>
                {shown?.label}
              </Button>
            </Dialog.Footer>
          </Dialog.Content>
        </Dialog.Positioner>
      </Portal>
    </Dialog.Root>
  );
}

/** Airflow replaces its whole page by an error when a plugin throws; this keeps an error within the plugin. */
export class Boundary extends Component<{ what: string; children: ReactNode }, { error: Error | null }> {
  override state = { error: null as Error | null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <Problem title={`${this.props.what} cannot be shown`}>
        {this.state.error.message}
        {"\n"}
        <Button size="xs" mt={2} variant="outline" onClick={() => this.setState({ error: null })}>
          Try again
        </Button>
      </Problem>
    );
  }
}

/** Sets the document's title while the view is shown. */
export function useTitle(title: string) {
  useEffect(() => {
    const before = document.title;
    document.title = title;
    return () => {
      document.title = before;
    };
  }, [title]);
}
